/** One session with the server, carried by one transport after another. */

import { createSession, request, RequestError, type SessionOptions } from "./control.js";
import { Emitter } from "./emitter.js";
import type {
  ActionResult, ClientEvent, ClientEvents, ClientType, Correlation, ErrorData, ServerEvent, SessionGrant, TurnDetection,
} from "./events.js";
import { readServerEvent } from "./events.js";
import { decodeFrame, encodeFrame, fromBase64, GAP, OUTPUT, toBase64, type AudioFrame } from "./frames.js";
import { forget, keep, recall, type Kept } from "./kept.js";
import type { ContextSource, Runtime, RuntimeEvents } from "./link.js";
import { Machine, stateNamed } from "./machine.js";
import { openPeer, openSocket, type Closing, type Transport } from "./transport.js";

const FIRST_DELAY_MS = 250;
const LAST_DELAY_MS = 5_000;
const READY_TIMEOUT_MS = 15_000;
const RENEW_AHEAD_MS = 60_000;
/** WebRTC says only after many seconds that nobody is there: so it is asked once nothing was heard for a second. */
const QUIET_MS = 1_000;
const DEAD_MS = 2_500;
const LOOK_MS = 250;
const MAX_PENDING = 64;
/** What a browser says of a connection that broke. */
const LOST = 1006;
/** Codes after which the same session cannot be picked up again. */
const FINAL_CODES = [1000, 1003, 1009, 4400, 4401, 4403, 4409, 4440, 4441, 4502];
const GONE_CODES = [4404, 4410];

/** The delay before the given attempt, the first being 0; `random` is from 0 to 1. */
export function backoff(attempt: number, random: number): number {
  const delay = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return Math.round(delay * (0.5 + random));
}

export class Session extends Emitter<RuntimeEvents> implements Runtime {
  readonly machine = new Machine();
  context: ContextSource | undefined;
  /** Results that could not be sent because there was no transport. */
  readonly pendingResults: ActionResult[] = [];
  private track: MediaStreamTrack | undefined;
  private kept: Kept | undefined;
  private transport: Transport | undefined;
  /** When anything was received last. */
  private heardAt = 0;
  private attempt = 0;
  private lostAt = 0;
  private timers = new Set<ReturnType<typeof setTimeout>>();
  private gap = false;
  private over = false;
  private lastFatal: ErrorData | undefined;
  private resolveReady: (() => void) | undefined;
  private rejectReady: ((error: Error) => void) | undefined;

  constructor(private readonly options: SessionOptions) {
    super();
    this.machine.watch(() => this.gate());
  }

  get microphone(): MediaStreamTrack | undefined {
    return this.track;
  }

  set microphone(track: MediaStreamTrack | undefined) {
    this.track = track;
    this.gate();
    this.transport?.setMicrophone?.(track);
  }

  get id(): string | undefined {
    return this.kept?.grant.session_id;
  }

  get grant(): SessionGrant | undefined {
    return this.kept?.grant;
  }

  get turnDetection(): TurnDetection {
    const fallback: TurnDetection = { type: "client_vad", silence_ms: 700, no_speech_ms: 8000, interrupt_response: true, follow_up_listen: true };
    return this.kept?.grant.turn_detection ?? fallback;
  }

  get rates(): { input: number; output: number } {
    const rate = (format: string | undefined, fallback: number) => Number(format?.split("/")[1] ?? fallback);
    return { input: rate(this.kept?.grant.audio.input, 16000), output: rate(this.kept?.grant.audio.output, 24000) };
  }

  get framed(): boolean {
    return this.transport?.kind !== "webrtc";
  }

  async start(): Promise<void> {
    this.over = false;
    this.attempt = this.lostAt = 0;
    this.kept = recall(this.options.storage);
    const ready = new Promise<void>((resolve, reject) => {
      this.resolveReady = resolve;
      this.rejectReady = reject;
    });
    this.machine.adopt("connecting", 0, "client.connect");
    if (this.kept?.resumeToken) this.connect();
    else await this.renewSession();
    return ready;
  }

  /** Ends the session for good. */
  async hangUp(reason: ClientEvents["session.close"]["reason"] = "user_hangup"): Promise<void> {
    if (this.transport && this.machine.state !== "not_connected") {
      this.send("session.close", { reason });
      this.after(2_000, () => this.finish(1000, "hung up"));
      return;
    }
    const grant = this.kept?.grant;
    this.finish(1000, "hung up");
    if (grant) await request(this.options, { method: "DELETE", path: `/v1/vip/sessions/${grant.session_id}`, token: grant.session_token }).catch(() => undefined);
  }

  send<Type extends ClientType>(type: Type, data: ClientEvents[Type], correlation: Correlation = {}): string {
    return this.post(type, data, correlation)?.id ?? "";
  }

  sendFrame(frame: AudioFrame): void {
    if (!this.transport) return;
    const flags = frame.flags | (this.gap ? GAP : 0);
    if (this.kept?.grant.audio.framing === "base64") {
      this.send("audio.chunk", { stream_id: frame.stream, seq: frame.seq, offset_ms: frame.offsetMs, flags, audio: toBase64(frame.payload) });
      return;
    }
    this.gap = !this.transport.sendFrame(encodeFrame({ ...frame, flags }));
  }

  sendResult(result: ActionResult): void {
    const sent = this.machine.state !== "connecting" && this.post("action.result", result)?.sent;
    if (sent) return;
    this.pendingResults.push(result);
    if (this.pendingResults.length > MAX_PENDING) this.pendingResults.shift();
  }

  async call(method: string, path: string, body?: unknown): Promise<unknown> {
    const grant = this.kept?.grant;
    if (!grant) throw new Error("there is no session");
    return request(this.options, { method, path: `/v1/vip/sessions/${grant.session_id}${path}`, body, token: grant.session_token });
  }

  /** There is nobody who could say that it is ready, so whoever talks to the provider says so. */
  readyWithoutControl(): void {
    this.resolveReady?.();
  }

  noteContext(version: number): void {
    if (!this.kept) return;
    this.kept.contextVersion = Math.max(version, this.kept.contextVersion);
    this.keep();
  }

  private post<Type extends ClientType>(type: Type, data: ClientEvents[Type], correlation: Correlation = {}): { id: string; sent: boolean } | undefined {
    const kept = this.kept;
    if (!kept || !this.transport) return undefined;
    const seq = kept.nextSeq++;
    const event = { type, id: `c-${seq}`, seq, ts: Date.now(), state_seq: this.machine.seq, ...correlation, data };
    const sent = this.transport.send(JSON.stringify(event));
    this.keep();
    if (event.type !== "session.ping") this.emit("traffic", { direction: "out", event: event as ClientEvent });
    return { id: event.id, sent };
  }

  private async renewSession(): Promise<void> {
    try {
      const grant = await createSession(this.options);
      this.kept = { grant, lastServerSeq: 0, nextSeq: 1, contextVersion: 0 };
      this.keep();
      this.connect();
    } catch (error) {
      const known = error instanceof RequestError;
      if (known && error.status < 500 && error.status !== 429) {
        this.finish(4400, error.message, error.error as ErrorData);
        return;
      }
      if (this.attempt >= 8) this.finish(LOST, error instanceof Error ? error.message : "the server cannot be reached");
      else this.retry(() => this.renewSession());
    }
  }

  private connect(): void {
    const grant = this.kept?.grant;
    if (!grant || this.over) return;
    this.machine.adopt("connecting", 0, "client.connect");
    const events = {
      open: () => this.greet(),
      text: (text: string) => this.receive(text),
      frame: (bytes: Uint8Array) => this.receiveFrame(bytes),
      closed: (closing: Closing) => {
        if (this.transport === transport) this.closed(closing);
      },
      track: (stream: MediaStream) => this.emit("track", stream),
    };
    const rtc = this.options.transport === "webrtc" ? grant.transport?.webrtc : undefined;
    const socket = grant.mode === "internal" ? grant.control : grant.transport?.websocket;
    let transport: Transport;
    if (rtc) {
      const options = { offerUrl: this.absolute(rtc.offer_url), token: grant.session_token, iceServers: rtc.ice_servers, microphone: this.microphone };
      transport = openPeer(options, events);
    } else if (socket) {
      const protocols = [socket.subprotocol, `vip.bearer.${grant.session_token}`];
      transport = openSocket(this.absolute(socket.url), protocols, events, this.options.socketFactory);
    } else if (grant.mode === "internal") {
      this.emit("connected", { resumed: false });
      return;
    } else {
      this.finish(4400, "the server offers no transport");
      return;
    }
    this.transport = transport;
    this.after(READY_TIMEOUT_MS, () => {
      if (this.transport === transport && this.machine.state === "connecting") {
        transport.close(4408, "not ready in time");
        this.closed({ code: 4408, reason: "not ready in time", opened: true });
      }
    });
  }

  private absolute(url: string): string {
    return new URL(url, this.options.endpoint ?? location.origin).href;
  }

  private greet(): void {
    const kept = this.kept;
    if (!kept) return;
    const results = this.pendingResults.splice(0);
    this.send("client.connect", {
      session_id: kept.grant.session_id,
      protocol_version: kept.grant.protocol_version,
      ...(kept.resumeToken
        ? { resume: { resume_token: kept.resumeToken, last_server_seq: kept.lastServerSeq, ...(results.length ? { pending_results: results } : {}) } }
        : {}),
    });
  }

  private receive(text: string): void {
    this.heardAt = Date.now();
    const event = readServerEvent(text);
    const kept = this.kept;
    if (!event || !kept) return;
    // What was seen before the transport changed may come again.
    if (event.seq <= kept.lastServerSeq) return;
    kept.lastServerSeq = event.seq;
    if (event.type !== "session.pong") this.emit("traffic", { direction: "in", event });
    this.follow(event, kept);
    this.keep();
    this.emit("event", event);
    if (event.type === "audio.chunk") {
      const { stream_id: stream, seq, offset_ms: offsetMs, flags = 0, audio } = event.data;
      this.emit("frame", { kind: OUTPUT, flags, stream, seq, offsetMs, payload: fromBase64(audio) });
    }
    if (event.type === "session.terminated") this.finish(1000, event.data.reason, this.lastFatal);
  }

  /** What every event means for the session itself. */
  private follow(event: ServerEvent, kept: Kept): void {
    switch (event.type) {
      case "session.connected": {
        if (event.data.resume_token) kept.resumeToken = event.data.resume_token;
        else delete kept.resumeToken;
        if (event.data.turn_detection) kept.grant.turn_detection = event.data.turn_detection;
        this.context?.resync(Math.max(event.data.context_version, kept.contextVersion));
        const full = this.context?.full();
        if (full) {
          kept.contextVersion = full.context_version;
          this.send("state.update", full);
        }
        this.emit("connected", { resumed: event.data.resumed });
        break;
      }
      case "server.ready":
        this.attempt = 0;
        this.lostAt = 0;
        this.scheduleRenewal();
        if (this.transport?.kind === "webrtc") this.listenToPeer(this.transport);
        this.resolveReady?.();
        break;
      case "state.changed":
        // A replay tells of states that were; the one that is comes after the handshake.
        if (this.machine.state !== "connecting" || event.data.previous === "connecting") {
          this.machine.adopt(stateNamed(event.data.state) ?? "idle", event.data.state_seq, event.data.trigger);
        }
        break;
      case "error.recoverable": {
        const { state, state_seq: seq } = event.data.details ?? {};
        const snapped = typeof state === "string" ? stateNamed(state) : undefined;
        if (event.data.code === "PROTO_INVALID_TRANSITION" && snapped) this.machine.adopt(snapped, seq ?? event.state_seq, "error.recoverable");
        break;
      }
      case "error.fatal":
        this.lastFatal = event.data;
        break;
      default:
        break;
    }
  }

  /** A track is always on the wire; it carries sound only while somebody is to be heard. */
  private gate(): void {
    if (!this.track) return;
    const { state } = this.machine;
    const overheard = this.turnDetection.type === "server_vad" && (state === "ai_thinking" || state === "ai_speaking");
    this.track.enabled = state === "user_speaking" || overheard;
  }

  private receiveFrame(bytes: Uint8Array): void {
    const frame = decodeFrame(bytes);
    if (frame?.kind === OUTPUT) this.emit("frame", frame);
  }

  private closed(closing: Closing): void {
    if (this.over) return;
    this.transport = undefined;
    this.clearTimers();
    const fatal = this.lastFatal;
    this.lastFatal = undefined;
    this.machine.adopt("not_connected", 0, "transport.lost");
    if (!this.lostAt) this.lostAt = Date.now();
    const windowMs = (this.kept?.grant.resume.window_s ?? 0) * 1000;
    const rejected = GONE_CODES.includes(closing.code) || fatal?.code === "SES_RESUME_REJECTED";
    if (FINAL_CODES.includes(closing.code) && !rejected) {
      this.finish(closing.code, closing.reason || fatal?.message || "the session ended", fatal);
    } else if (rejected || Date.now() - this.lostAt > windowMs) {
      this.retry(() => this.renewSession());
    } else {
      this.retry(() => (closing.opened ? this.connect() : this.diagnose()), fatal?.retry_after_ms);
    }
  }

  /** A browser does not say why a socket never opened; the server does, when asked. */
  private async diagnose(): Promise<void> {
    try {
      await this.call("GET", "");
      this.connect();
    } catch (error) {
      const status = error instanceof RequestError ? error.status : 0;
      if (status === 401 || status === 404 || status === 410) await this.renewSession();
      else this.retry(() => this.diagnose());
    }
  }

  private retry(again: () => unknown, atLeastMs = 0): void {
    const delayMs = Math.max(atLeastMs, backoff(this.attempt, Math.random()));
    this.attempt += 1;
    this.emit("reconnecting", { attempt: this.attempt, delayMs });
    this.after(delayMs, () => void again());
  }

  private scheduleRenewal(): void {
    const grant = this.kept?.grant;
    if (!grant) return;
    const left = grant.session_token_expires_at * 1000 - Date.now() - RENEW_AHEAD_MS;
    this.after(Math.max(1_000, left), async () => {
      const renewed = (await this.call("POST", "/token").catch(() => undefined)) as Partial<SessionGrant> | undefined;
      if (!renewed?.session_token || !renewed.session_token_expires_at) return;
      grant.session_token = renewed.session_token;
      grant.session_token_expires_at = renewed.session_token_expires_at;
      this.keep();
      this.scheduleRenewal();
    });
  }

  /** A peer that answers no ping is lost, whatever WebRTC still thinks. */
  private listenToPeer(transport: Transport): void {
    let askedAt = 0;
    const look = () => {
      if (this.transport !== transport) return;
      const now = Date.now();
      const silentMs = now - this.heardAt;
      // A page that slept has not heard because it did not listen.
      const awake = now - lookedAt < QUIET_MS;
      lookedAt = now;
      if (awake && askedAt > this.heardAt && silentMs > DEAD_MS) {
        transport.close(4408, "nothing was heard");
        // A transport that was closed reports it itself.
        if (this.transport === transport) this.closed({ code: 4408, reason: "nothing was heard", opened: true });
        return;
      }
      if (silentMs > QUIET_MS && (askedAt <= this.heardAt || !awake)) {
        askedAt = now;
        this.heardAt = awake ? this.heardAt : now - 1;
        this.send("session.ping", { nonce: String(now) });
      }
      this.after(LOOK_MS, look);
    };
    let lookedAt = Date.now();
    look();
  }

  private finish(code: number, reason: string, error?: ErrorData): void {
    if (this.over) return;
    this.over = true;
    this.clearTimers();
    const transport = this.transport;
    this.transport = undefined;
    transport?.close(1000, "");
    this.machine.adopt("not_connected", 0, "session.close");
    this.kept = undefined;
    forget(this.options.storage);
    this.pendingResults.length = 0;
    this.rejectReady?.(new Error(reason));
    this.emit("ended", { code, reason, ...(error ? { error } : {}) });
  }

  private after(ms: number, then: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      then();
    }, ms);
    this.timers.add(timer);
  }

  private clearTimers(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }

  private keep(): void {
    if (this.kept) keep(this.options.storage, this.kept);
  }
}
