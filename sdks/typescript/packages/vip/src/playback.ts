/** What the assistant is saying: from its announcement to the last sample that was heard. */

import type { ResponseOpening, ServerEvent } from "./events.js";
import type { AudioFrame } from "./frames.js";
import type { Link } from "./link.js";

/** The loudspeaker. */
export interface Speaker {
  /** Whether sound can come out at all. */
  readonly audible: boolean;
  play(stream: number, pcm: Uint8Array): void;
  end(stream: number): void;
  /** Lets a track be heard that was cut off before. */
  resume(): void;
  /** Silence at once; returns how many milliseconds were played. */
  stop(): Promise<number>;
}

export interface Speaking {
  id: string;
  interruptible: boolean;
  expectsReply: boolean;
  stream?: number;
  startedAt?: number;
  playedMs: number;
  /** It was cut off, or is over. */
  over: boolean;
}

const PROGRESS_EVERY_MS = 1000;

export class Playback {
  /** What is being said, or was said last. */
  current: Speaking | undefined;
  private lastProgress = 0;

  constructor(
    private readonly link: Link,
    private readonly speaker: Speaker,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Takes in what the runtime says about its speech. */
  receive(event: ServerEvent): void {
    switch (event.type) {
      case "response.audio":
      case "server.announce":
        this.open(event.data);
        break;
      case "audio.start":
        if (this.current?.id === event.data.response_id) {
          this.current.stream = event.data.stream_id;
          this.current.startedAt = this.now();
          this.speaker.resume();
        }
        break;
      case "audio.end":
        this.finish(event.data.response_id, event.data.duration_ms);
        break;
      case "response.done":
        // Nothing was or will be audible of it.
        if (this.current?.id === event.data.response_id && this.current.startedAt === undefined) {
          this.complete(event.data.status === "failed" ? "failed" : "played");
        }
        break;
      default:
        break;
    }
  }

  frame(frame: AudioFrame): void {
    if (!this.current || this.current.over || frame.stream !== this.current.stream) return;
    if (frame.payload.length && this.speaker.audible) this.speaker.play(frame.stream, frame.payload);
  }

  progress(stream: number, playedMs: number): void {
    const current = this.current;
    if (!current || current.over || current.stream !== stream) return;
    current.playedMs = playedMs;
    if (this.now() - this.lastProgress < PROGRESS_EVERY_MS || this.link.machine.state !== "ai_speaking") return;
    this.lastProgress = this.now();
    this.link.send("audio.progress", { response_id: current.id, played_ms: playedMs });
  }

  drained(stream: number, playedMs: number): void {
    if (this.current?.stream !== stream) return;
    this.current.playedMs = playedMs;
    this.complete("played");
  }

  /** Cuts it off. Returns what was cut off, and where; nothing if nothing was being said. */
  async halt(): Promise<{ id: string; playedMs: number } | undefined> {
    const current = this.current;
    if (!current || current.over) return undefined;
    current.over = true;
    const stopped = await this.speaker.stop();
    const playedMs = this.link.framed ? stopped : Math.round(this.now() - (current.startedAt ?? this.now()));
    return { id: current.id, playedMs };
  }

  private open(opening: ResponseOpening): void {
    this.current = {
      id: opening.response_id,
      interruptible: opening.interruptible ?? true,
      expectsReply: opening.expects_reply ?? false,
      ...(opening.stream_id === undefined ? {} : { stream: opening.stream_id }),
      playedMs: 0,
      over: false,
    };
    if (opening.modality === "text" && opening.content !== undefined) this.complete("played");
  }

  private finish(id: string, durationMs: number): void {
    const current = this.current;
    if (!current || current.over || current.id !== id) return;
    if (!this.link.framed) {
      const left = durationMs - (this.now() - (current.startedAt ?? this.now()));
      current.playedMs = durationMs;
      setTimeout(() => {
        if (this.current === current) this.complete("played");
      }, Math.max(0, left));
    } else if (this.speaker.audible && current.stream !== undefined) {
      this.speaker.end(current.stream);
    } else {
      this.complete("failed");
    }
  }

  private complete(status: "played" | "failed"): void {
    const current = this.current;
    if (!current || current.over) return;
    current.over = true;
    this.link.send("audio.complete", { response_id: current.id, played_ms: current.playedMs, status }, { response_id: current.id });
  }
}
