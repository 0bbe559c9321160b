/** A provider that speaks this protocol itself. It keeps the state, and this side follows. */

import type { ClientEvent, ContextFull, ServerEvents, ServerType } from "../events.js";
import { readServerEvent } from "../events.js";
import { decodeFrame, encodeFrame, OUTPUT, type AudioFrame } from "../frames.js";
import type { Adapter, AdapterHost } from "../internal.js";
import type { Transport } from "../transport.js";

export class NativeAdapter implements Adapter {
  readonly rates = { input: 16000, output: 24000 };
  private transport: Transport | undefined;
  private seq = 0;
  private last = 0;

  constructor(private readonly host: AdapterHost) {}

  open(context: ContextFull | undefined): Promise<string | undefined> {
    const { provider, sessionId } = this.host;
    return new Promise((resolve, reject) => {
      const events = {
        open: () => this.post("client.connect", { session_id: sessionId, protocol_version: "0.1", ...(context ? { context } : {}) }),
        text: (text: string) => {
          const event = readServerEvent(text);
          if (!event || event.seq <= this.last) return;
          this.last = event.seq;
          if (event.type === "server.ready") resolve(sessionId);
          else if (event.type === "session.connected") return;
          // Connecting ends when the server says so, not the provider.
          else if (event.type === "state.changed" && event.data.previous === "connecting") return;
          else {
            const { type, data, role, turn_id, response_id, reply_to } = event;
            const named = { ...(role ? { role } : {}), ...(turn_id ? { turn_id } : {}), ...(response_id ? { response_id } : {}), ...(reply_to ? { reply_to } : {}) };
            this.host.say(type as ServerType, data as ServerEvents[ServerType], named);
          }
        },
        frame: (bytes: Uint8Array) => {
          const frame = decodeFrame(bytes);
          if (frame?.kind === OUTPUT) this.host.frame(frame);
        },
        closed: ({ reason }: { reason: string }) => {
          const why = reason || "the provider closed the connection";
          reject(new Error(why));
          if (this.transport) this.host.lost(why);
        },
      };
      const prefix = provider.auth.subprotocol_prefix ?? "vip.bearer.";
      this.transport = this.host.socket(provider.url, ["vip.v1", `${prefix}${provider.credential.value}`], events);
    });
  }

  send(event: ClientEvent): void {
    const { type, data, id: _id, seq: _seq, ...rest } = event;
    this.post(type, data, rest);
  }

  sendFrame(frame: AudioFrame): void {
    this.transport?.sendFrame(encodeFrame(frame));
  }

  close(): void {
    const transport = this.transport;
    this.transport = undefined;
    transport?.close(1000, "");
  }

  private post(type: string, data: unknown, rest: object = {}): void {
    const seq = ++this.seq;
    this.transport?.send(JSON.stringify({ ts: Date.now(), state_seq: this.host.machine.seq, ...rest, type, id: `c-${seq}`, seq, data }));
  }
}
