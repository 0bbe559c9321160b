/** Who has the floor: when the user's turn begins and ends, and what of the microphone is sent. */

import { OUTGOING_DELAY_MS } from "./audio.js";
import { Emitter } from "./emitter.js";
import type { EndReason, InputTrigger, ServerEvent, State } from "./events.js";
import { END, INPUT, MONITOR } from "./frames.js";
import type { Link } from "./link.js";
import type { Transition } from "./machine.js";
import type { Playback } from "./playback.js";
import { VoiceDetector, type Hearing } from "./vad.js";

export interface FloorEvents {
  hearing: Hearing;
  /** The user could not have the floor, and why. */
  refused: { code: string; message: string };
}

/** What the user wants the floor for. */
type Wish = { speak: InputTrigger } | { text: string } | "silence";

/** A turn that was asked for and not granted yet. Nothing is sent of it meanwhile: it is held. */
interface Bid {
  turn: string;
  wish: Wish;
  event: string;
  bargeIn: { trigger: "vad" | "manual"; confidence?: number } | undefined;
  stream: number;
  held: Uint8Array[];
  /** It was over before it was granted. */
  ended: EndReason | undefined;
}

interface Turn {
  id: string;
  trigger: InputTrigger;
  stream: number;
  seq: number;
  sentMs: number;
  heardMs: number;
  speech: boolean;
}

const FRAME_MS = 20;
const PREROLL_FRAMES = 20;
const PTT_PREROLL_FRAMES = 8;
const MAX_HELD_FRAMES = 90;
const MAX_TURN_MS = 60_000;
const MAX_TEXT = 4096;
const LAST_STREAM = 32767;

export class Floor extends Emitter<FloorEvents> {
  /** Whether a turn begins when somebody speaks; else only when it is asked for. */
  handsFree = false;
  /** Whether there is a microphone to listen with. */
  microphone = false;
  /** The last chance to say something before the user has the floor. */
  beforeTurn: (() => void) | undefined;

  private readonly detector = new VoiceDetector();
  private readonly preroll: Uint8Array[] = [];
  private bid: Bid | undefined;
  private turn: Turn | undefined;
  private monitor: { stream: number; seq: number } | undefined;
  private nextText: string | undefined;
  private lastStream = 0;

  constructor(
    private readonly link: Link,
    private readonly playback: Playback,
    private readonly random: () => string = () => crypto.randomUUID().slice(0, 13),
  ) {
    super();
    link.machine.watch((transition) => this.moved(transition));
  }

  /** Takes in 20 ms of the microphone. */
  heard(pcm: Uint8Array): void {
    const state = this.link.machine.state;
    const hearing = this.detector.push(pcm, FRAME_MS, state === "ai_speaking" || state === "ai_thinking");
    this.emit("hearing", hearing);
    this.preroll.push(pcm);
    if (this.preroll.length > PREROLL_FRAMES) this.preroll.shift();
    if (this.turn && state === "user_speaking") this.speak(this.turn, pcm, hearing);
    else if (this.bid) this.hold(this.bid, pcm);
    else if (hearing.onset && this.handsFree) this.noticed(hearing);
    else this.overhear(pcm, state);
  }

  /** Begins a turn that a key, a button or a question asked for. */
  begin(trigger: InputTrigger): void {
    if (this.bid || this.turn) return;
    this.ask({ speak: trigger }, this.preroll.slice(-PTT_PREROLL_FRAMES), { trigger: "manual" });
  }

  /** Ends the user's turn: it is the assistant's. */
  end(reason: EndReason): void {
    if (this.bid) this.bid.ended = reason;
    else if (this.turn) this.close(this.turn, reason);
  }

  /** The user's turn never was. */
  cancel(reason: "user" | "muted" | "timeout" | "error" = "user"): void {
    if (this.bid) this.bid.wish = "silence";
    else if (this.link.machine.state === "user_speaking") this.link.send("input.cancel", { reason }, this.named());
  }

  /** Says something in writing, now or as soon as that is possible. */
  say(text: string): void {
    const trimmed = text.trim().slice(0, MAX_TEXT);
    if (!trimmed) return;
    this.nextText = trimmed;
    this.pump();
  }

  /** Makes the assistant stop, without saying anything. */
  interrupt(): void {
    const state = this.link.machine.state;
    if (state === "user_speaking") this.cancel();
    else if (state === "ai_speaking" || state === "ai_thinking") this.ask("silence", [], { trigger: "manual" });
  }

  /** Whether the user wants the floor that an action has just taken. */
  get claims(): boolean {
    return this.bid?.bargeIn !== undefined && this.bid.event !== "";
  }

  /** Asks again, after an action crossed the first time. */
  repeat(): void {
    if (this.bid) this.sendBargeIn(this.bid, undefined);
  }

  receive(event: ServerEvent): void {
    switch (event.type) {
      case "input.barge_in":
        // The server heard it first. Silence at once, and say how much was heard.
        if (event.data.origin === "server" && !this.bid) {
          const bid = this.newBid({ speak: "vad" }, [...this.preroll], { trigger: event.data.trigger });
          if (event.turn_id) bid.turn = event.turn_id;
          void this.playback.halt().then((halted) => this.sendBargeIn(bid, halted));
        }
        break;
      case "error.recoverable":
        if (this.bid?.event && (event.data.ref_id ?? event.reply_to) === this.bid.event) {
          this.bid = undefined;
          this.emit("refused", event.data);
        }
        break;
      default:
        break;
    }
  }

  private noticed(hearing: Hearing): void {
    const { state } = this.link.machine;
    const { type, interrupt_response: interrupts } = this.link.turnDetection;
    if (type === "manual") return;
    const interrupting = (state === "ai_speaking" && this.playback.current?.interruptible !== false) || state === "ai_thinking";
    // With server_vad it is the server that notices interruptions.
    if (state !== "idle" && !(interrupting && interrupts && type === "client_vad")) return;
    const confidence = Math.round(hearing.confidence * 100) / 100;
    this.link.send("input.detected", { origin: "client", confidence, level_db: Math.round(hearing.levelDb) });
    this.ask({ speak: "vad" }, [...this.preroll], { trigger: "vad", confidence });
  }

  /** Asks for the floor: by starting where nobody has it, by barging in where the assistant has it. */
  private ask(wish: Wish, held: Uint8Array[], bargeIn: { trigger: "vad" | "manual"; confidence?: number }): void {
    const { state } = this.link.machine;
    this.beforeTurn?.();
    if (state === "idle") {
      const bid = this.newBid(wish, held, undefined);
      this.sendStart(bid);
    } else if (state === "ai_speaking" || state === "ai_thinking") {
      if (state === "ai_speaking" && this.playback.current?.interruptible === false) {
        this.emit("refused", { code: "PROTO_NOT_INTERRUPTIBLE", message: "This cannot be interrupted." });
        return;
      }
      const bid = this.newBid(wish, held, bargeIn);
      void this.playback.halt().then((halted) => this.sendBargeIn(bid, halted));
    } else {
      this.emit("refused", { code: "PROTO_INVALID_TRANSITION", message: "Not now." });
    }
  }

  private newBid(wish: Wish, held: Uint8Array[], bargeIn: Bid["bargeIn"]): Bid {
    this.lastStream = (this.lastStream % LAST_STREAM) + 1;
    this.monitor = undefined;
    this.bid = { turn: `t-${this.random()}`, wish, event: "", bargeIn, stream: this.lastStream, held, ended: undefined };
    return this.bid;
  }

  private sendStart(bid: Bid): void {
    const correlation = { turn_id: bid.turn, role: "user" as const };
    if (bid.wish === "silence") {
      this.bid = undefined;
    } else if ("text" in bid.wish) {
      bid.event = this.link.send("input.start", { mode: "text", trigger: "text" }, correlation);
    } else {
      const data = { mode: "voice" as const, trigger: bid.wish.speak, stream_id: bid.stream, timeout_ms: this.link.turnDetection.no_speech_ms, preroll_ms: bid.held.length * FRAME_MS };
      bid.event = this.link.send("input.start", data, correlation);
    }
  }

  private sendBargeIn(bid: Bid, halted: { id: string; playedMs: number } | undefined): void {
    if (this.bid !== bid || !bid.bargeIn) return;
    const { state } = this.link.machine;
    // It ended by itself while it was being cut off.
    if (state === "idle") {
      bid.bargeIn = undefined;
      this.sendStart(bid);
      return;
    }
    bid.event = this.link.send(
      "input.barge_in",
      {
        ...bid.bargeIn,
        origin: "client",
        ...(halted ? { response_id: halted.id, played_ms: halted.playedMs } : {}),
        ...(typeof bid.wish === "object" && "speak" in bid.wish ? { stream_id: bid.stream, preroll_ms: bid.held.length * FRAME_MS } : {}),
      },
      { turn_id: bid.turn, role: "user" },
    );
  }

  private moved({ state, previous, trigger }: Transition): void {
    this.detector.reset();
    if (state === "user_speaking") {
      this.granted();
      return;
    }
    this.turn = undefined;
    // A bid outlives only what it may still succeed in.
    if (this.bid && (state === "not_connected" || state === "connecting" || (previous === "user_speaking" && this.bid.event))) this.bid = undefined;
    if (state !== "ai_speaking" && previous === "ai_speaking") void this.playback.halt();
    if (state === "not_connected") this.nextText = undefined;
    if (state !== "idle") return;
    const asked = trigger === "audio.complete" && this.playback.current?.expectsReply && this.link.turnDetection.follow_up_listen;
    // The event that moved the state is still being handled: what follows comes after it.
    queueMicrotask(() => {
      if (this.link.machine.state !== "idle") return;
      if (this.nextText) this.pump();
      else if (asked && this.microphone) this.begin("follow_up");
    });
  }

  private granted(): void {
    const bid = this.bid;
    this.bid = undefined;
    if (!bid) return;
    const named = { turn_id: bid.turn, role: "user" as const };
    if (bid.wish === "silence") {
      this.turn = undefined;
      this.link.send("input.cancel", { reason: "user" }, named);
    } else if ("text" in bid.wish) {
      this.link.send("input.text", { text: bid.wish.text, final: true }, named);
      this.link.send("input.end", { reason: "text" }, named);
    } else {
      const turn: Turn = { id: bid.turn, trigger: bid.wish.speak, stream: bid.stream, seq: 0, sentMs: 0, heardMs: 0, speech: bid.wish.speak === "vad" };
      this.turn = turn;
      for (const pcm of bid.held) this.sendPcm(turn, pcm);
      if (bid.ended) this.close(turn, bid.ended);
    }
  }

  private speak(turn: Turn, pcm: Uint8Array, hearing: Hearing): void {
    this.sendPcm(turn, pcm);
    turn.heardMs += FRAME_MS;
    if (hearing.onset) {
      turn.speech = true;
      this.link.send("input.detected", { origin: "client", confidence: Math.round(hearing.confidence * 100) / 100 }, this.named());
    }
    if (turn.heardMs >= MAX_TURN_MS) {
      this.close(turn, "timeout");
      return;
    }
    const { type, silence_ms: silence, no_speech_ms: noSpeech } = this.link.turnDetection;
    if (type !== "client_vad" || turn.trigger === "ptt") return;
    if (turn.speech && hearing.silenceMs >= silence) this.close(turn, "silence");
    else if (!turn.speech && turn.heardMs >= noSpeech) {
      this.turn = undefined;
      this.link.send("input.timeout", { speech_seen: false }, { turn_id: turn.id, role: "user" });
    }
  }

  private sendPcm(turn: Turn, pcm: Uint8Array): void {
    if (this.link.framed) this.link.sendFrame({ kind: INPUT, flags: 0, stream: turn.stream, seq: turn.seq, offsetMs: turn.sentMs, payload: pcm });
    turn.seq += 1;
    turn.sentMs += FRAME_MS;
  }

  private close(turn: Turn, reason: EndReason): void {
    this.turn = undefined;
    const end = () => {
      if (this.link.machine.state !== "user_speaking") return;
      this.link.send("input.end", { reason, duration_ms: turn.sentMs }, { turn_id: turn.id, role: "user" });
    };
    if (this.link.framed) {
      this.link.sendFrame({ kind: INPUT, flags: END, stream: turn.stream, seq: turn.seq, offsetMs: turn.sentMs, payload: new Uint8Array(0) });
      end();
    } else {
      // The track is late; its last word comes after the key was let go.
      setTimeout(end, reason === "silence" ? 0 : OUTGOING_DELAY_MS);
    }
  }

  private hold(bid: Bid, pcm: Uint8Array): void {
    if (bid.ended) return;
    bid.held.push(pcm);
    if (bid.held.length > MAX_HELD_FRAMES) bid.held.shift();
  }

  /** Where the server listens for interruptions, it gets what is said meanwhile, and keeps none of it. */
  private overhear(pcm: Uint8Array, state: State): void {
    const { type, interrupt_response: interrupts } = this.link.turnDetection;
    const wanted = type === "server_vad" && interrupts && this.handsFree && (state === "ai_thinking" || state === "ai_speaking");
    if (!wanted || !this.link.framed) {
      this.monitor = undefined;
      return;
    }
    if (!this.monitor) {
      this.lastStream = (this.lastStream % LAST_STREAM) + 1;
      this.monitor = { stream: this.lastStream, seq: 0 };
    }
    const { stream, seq } = this.monitor;
    this.link.sendFrame({ kind: INPUT, flags: MONITOR, stream, seq, offsetMs: seq * FRAME_MS, payload: pcm });
    this.monitor.seq += 1;
  }

  /** Sends what was written, once the floor is free; makes it free where it can. */
  private pump(): void {
    const text = this.nextText;
    if (!text || this.bid) return;
    const { state } = this.link.machine;
    if (state === "idle") {
      this.nextText = undefined;
      this.ask({ text }, [], { trigger: "manual" });
    } else if (state === "user_speaking" || state === "ai_speaking" || state === "ai_thinking") {
      this.interrupt();
    }
  }

  private named(): { turn_id?: string; role: "user" } {
    return { ...(this.turn ? { turn_id: this.turn.id } : {}), role: "user" };
  }
}
