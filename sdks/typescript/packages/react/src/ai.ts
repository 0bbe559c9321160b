/** A transport for the AI SDK, so that `useChat` streams, stops and resumes over Switchboard. */

import type { Client, Part, Turn, TurnEvent } from "@switchboard/client";
import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";

export interface SwitchboardTransportOptions {
  client: Client;
  /** The name of the session of a chat; its id unless said otherwise. */
  session?: (chatId: string) => string;
  agent?: string;
}

/** `useChat({ transport: new SwitchboardTransport({ client }), resume: true })`. The server keeps the conversation: only what is new is sent. */
export class SwitchboardTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** What comes back after a reload is the whole answer. */
  readonly resumeStreamIsReplay = true;

  constructor(private readonly options: SwitchboardTransportOptions) {}

  async sendMessages(options: Parameters<ChatTransport<M>["sendMessages"]>[0]): Promise<ReadableStream<UIMessageChunk>> {
    const message = options.messages.filter(({ role }) => role === "user").at(-1);
    if (!message) throw new Error("there is no message of the user to send");
    const { agent } = this.options;
    const turn = this.session(options.chatId).ask(inputOf(message), {
      ...(agent === undefined ? {} : { agent }),
      // The message's own id: asked twice, it is answered once. Asked for anew, it is answered anew.
      ...(options.trigger === "submit-message" && message.id.length <= 64 ? { key: message.id } : {}),
      ...(options.abortSignal ? { signal: options.abortSignal } : {}),
    });
    return chunksOf(turn);
  }

  async reconnectToStream(options: { chatId: string }): Promise<ReadableStream<UIMessageChunk> | null> {
    const turn = await this.session(options.chatId).resume();
    return turn ? chunksOf(turn) : null;
  }

  private session(chatId: string) {
    const { client, session } = this.options;
    return client.session(session ? session(chatId) : chatId);
  }
}

function inputOf(message: UIMessage): string | Part[] {
  const parts = message.parts.flatMap((part): Part[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (part.type === "file") return [{ type: "ref", uri: part.url }];
    return [];
  });
  return parts.every((part) => part.type === "text") ? parts.map((part) => (part as { text: string }).text).join("\n") : parts;
}

/** A turn as the stream that the AI SDK reads. Cancelling the stream stops nothing: that is what its signal is for. */
export function chunksOf(turn: Turn): ReadableStream<UIMessageChunk> {
  return new ReadableStream<UIMessageChunk>({
    async start(controller) {
      const send = (chunk: UIMessageChunk) => controller.enqueue(chunk);
      const writer = new Writer(send);
      try {
        for await (const event of turn) writer.event(event);
        writer.close();
        if (turn.status === "interrupted") send({ type: "abort" });
        send({ type: "finish-step" });
        send({ type: "finish" });
      } catch (error) {
        writer.close();
        send({ type: "error", errorText: error instanceof Error ? error.message : String(error) });
      }
      controller.close();
    },
  });
}

/** Puts texts and thoughts between their beginnings and ends. */
class Writer {
  private open: { type: "text" | "reasoning"; id: string } | undefined;
  private parts = 0;
  private begun = false;

  constructor(private readonly send: (chunk: UIMessageChunk) => void) {}

  event(event: TurnEvent): void {
    this.begin();
    switch (event.type) {
      case "text":
      case "reasoning": {
        if (this.open?.type !== event.type) {
          this.close();
          this.open = { type: event.type, id: String((this.parts += 1)) };
          this.send({ type: `${event.type}-start`, id: this.open.id });
        }
        return this.send({ type: `${event.type}-delta`, id: this.open.id, delta: event.text });
      }
      case "call":
        this.close();
        return this.send({ type: "tool-input-available", toolCallId: event.id, toolName: event.name, input: event.args, dynamic: true });
      case "result":
        if (event.ok) return this.send({ type: "tool-output-available", toolCallId: event.id, output: event.output ?? null, dynamic: true });
        return this.send({ type: "tool-output-error", toolCallId: event.id, errorText: event.error?.message ?? "failed", dynamic: true });
      case "tool":
        if (event.phase === "start") {
          this.close();
          return this.send({ type: "tool-input-available", toolCallId: event.id, toolName: event.name, input: event.args ?? {}, dynamic: true, providerExecuted: true });
        }
        if (event.phase === "done") return this.send({ type: "tool-output-available", toolCallId: event.id, output: event.output ?? null, dynamic: true, providerExecuted: true });
        if (event.phase === "error") return this.send({ type: "tool-output-error", toolCallId: event.id, errorText: JSON.stringify(event.output ?? "failed"), dynamic: true, providerExecuted: true });
        return undefined;
      case "data":
        this.close();
        return this.send({ type: "data-output", data: { mime: event.mime ?? null, value: event.value } });
      case "checklist":
        return this.send({ type: "data-checklist", id: event.id, data: { title: event.title, items: event.items } });
      case "notice":
        return this.send({ type: "data-notice", data: { level: event.level, text: event.text } });
      case "question":
        return this.send({ type: "data-question", id: event.question.id, data: { text: event.question.text, schema: event.question.schema ?? null } });
      case "approval":
        return this.send({ type: "data-approval", id: event.approval.id, data: { text: event.approval.text } });
      case "usage":
        return this.send({ type: "message-metadata", messageMetadata: { usage: event.usage } });
      case "restarted":
        // What was said is void; a message begins anew with its step.
        this.close();
        return this.send({ type: "start-step" });
      default:
        return undefined;
    }
  }

  close(): void {
    this.begin();
    if (this.open) this.send({ type: `${this.open.type}-end`, id: this.open.id });
    this.open = undefined;
  }

  private begin(): void {
    if (this.begun) return;
    this.begun = true;
    this.send({ type: "start" });
    this.send({ type: "start-step" });
  }
}
