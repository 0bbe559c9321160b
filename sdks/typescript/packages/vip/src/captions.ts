/** What was said, by either side, as it becomes known. */

import type { ServerEvent } from "./events.js";

export interface Caption {
  role: "user" | "assistant";
  /** The turn or the response. */
  id: string;
  text: string;
  final: boolean;
  /** It was cut off here. */
  interrupted?: boolean;
}

export class Captions {
  /** The last turn of the user that was understood. */
  lastTurn: { id: string; text: string } | undefined;
  /** What of a response has been spoken so far. */
  private speaking = { id: "", text: "" };

  constructor(private readonly show: (caption: Caption) => void) {}

  receive(event: ServerEvent): void {
    switch (event.type) {
      case "transcript.partial":
        this.show({ role: "user", id: event.data.turn_id, text: event.data.text, final: false });
        break;
      case "input.complete":
        this.lastTurn = { id: event.data.turn_id, text: event.data.text };
        this.show({ role: "user", id: event.data.turn_id, text: event.data.text, final: true });
        break;
      case "response.audio":
      case "server.announce":
        this.speaking = { id: event.data.response_id, text: "" };
        // What is known already comes again as it is spoken; it is shown for now.
        if (event.data.content) this.say(event.data.response_id, event.data.content, false);
        break;
      case "response.text.delta":
        if (this.speaking.id !== event.data.response_id) this.speaking = { id: event.data.response_id, text: "" };
        this.speaking.text += event.data.text;
        this.say(event.data.response_id, this.speaking.text, false);
        break;
      case "audio.interrupted":
        this.speaking = { id: "", text: "" };
        this.show({ role: "assistant", id: event.data.response_id, text: event.data.spoken_text, final: true, interrupted: true });
        break;
      case "response.done": {
        const text = event.data.text ?? (this.speaking.id === event.data.response_id ? this.speaking.text : "");
        if (text && event.data.status !== "incomplete") this.say(event.data.response_id, text, true);
        break;
      }
      default:
        break;
    }
  }

  private say(id: string, text: string, final: boolean): void {
    this.show({ role: "assistant", id, text, final });
  }
}
