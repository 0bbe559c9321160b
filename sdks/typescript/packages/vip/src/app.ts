/** Everything together: a page, its session, its microphone, and what happens between them. */

import { Actions, type ConfirmationRequest } from "./actions.js";
import { Audio } from "./audio.js";
import { Captions, type Caption } from "./captions.js";
import { ContextFeed } from "./context.js";
import type { SessionOptions } from "./control.js";
import { confirmInDialog } from "./dialog.js";
import { Emitter } from "./emitter.js";
import type { ActionDef, ErrorData, HistoryItem, Invocation, ServerEvent, SessionGrant } from "./events.js";
import { Floor } from "./floor.js";
import { InternalSession } from "./internal.js";
import { hasKept } from "./kept.js";
import type { Runtime, Traffic } from "./link.js";
import type { Transition } from "./machine.js";
import { Playback } from "./playback.js";
import { Page, type ActionHandler, type PageOptions } from "./screen.js";
import { Session } from "./session.js";
import type { Hearing } from "./vad.js";

export interface VoiceOptions extends SessionOptions, PageOptions {
  /** Where the audio worklets are served from, for pages that forbid `blob:` in `script-src`: the file `worklet.js` of this package. */
  workletUrl?: string | URL;
  /** Asks the user before something sensitive; a dialog unless given. */
  confirm?: (request: ConfirmationRequest) => Promise<boolean>;
}

export interface VoiceEvents {
  state: Transition;
  caption: Caption;
  /** Every event in either direction, for whoever wants to look. */
  traffic: Traffic;
  error: ErrorData;
  hearing: Hearing;
  /** Whether the microphone is open, and if not, why it could not be. */
  microphone: { open: boolean; error?: Error };
  /** The transport is gone and another one is tried. */
  reconnecting: { attempt: number; delayMs: number };
  connected: { resumed: boolean };
  /** It ends in so many milliseconds, unless something is said. */
  ending: { reason: string; inMs: number };
  ended: { code: number; reason: string; error?: ErrorData };
}

/** At most so many updates of the screen in a second are welcome. */
const CONTEXT_EVERY_MS = 250;
const MAX_REPLAYED = 64;

export class VoiceApp extends Emitter<VoiceEvents> {
  private readonly session: Runtime;
  private readonly storage: Storage | null | undefined;
  private readonly page: Page;
  private readonly feed = new ContextFeed();
  private readonly audio: Audio;
  private readonly playback: Playback;
  private readonly floor: Floor;
  private readonly actions: Actions;
  private readonly captions = new Captions((caption) => this.emit("caption", caption));
  private awaited: Invocation[] = [];
  private replayed: Invocation[] = [];
  private contextTimer: ReturnType<typeof setTimeout> | undefined;
  private pressed = false;

  constructor(options: VoiceOptions) {
    super();
    this.storage = options.storage;
    const session = new Session(options);
    this.session = options.mode === "internal" ? new InternalSession(session) : session;
    this.page = new Page(options);
    this.audio = new Audio(options.workletUrl, () => this.session.rates);
    this.playback = new Playback(this.session, this.audio);
    this.floor = new Floor(this.session, this.playback);
    this.actions = new Actions({
      state: () => this.session.machine.state,
      contextVersion: () => this.feed.version,
      find: (id) => this.page.find(id),
      routes: () => this.page.routes(),
      confirm: (request) => (options.confirm ?? confirmInDialog)(request),
      lastTurn: () => this.captions.lastTurn,
      contextAfter: (navigated) => this.contextAfter(navigated),
      now: () => Date.now(),
    });
    this.session.context = {
      full: () => {
        this.feed.show(this.page.screen());
        return this.feed.full();
      },
      resync: (version) => this.feed.resync(version),
    };
    this.connectParts();
  }

  get state() {
    return this.session.machine.state;
  }

  get grant(): SessionGrant | undefined {
    return this.session.grant;
  }

  /** Whether the microphone is open. */
  get listening(): boolean {
    return this.floor.microphone;
  }

  /** Whether this tab has a session to go on with, such as one from before a reload. */
  get resumable(): boolean {
    return hasKept(this.storage);
  }

  /** Adds something that can be done by voice; returns how to take it away again. */
  action(id: string, def: ActionDef, handler: ActionHandler): () => void {
    const remove = this.page.declare(id, def, handler);
    this.refresh();
    return () => {
      remove();
      this.refresh();
    };
  }

  /** Connects: with the session that this tab had before, if it still lives. Done once it is ready. */
  async start(): Promise<void> {
    this.page.watch(() => this.refresh());
    await this.session.start();
  }

  /** What was said and done so far, as the server has it. */
  async history(): Promise<HistoryItem[]> {
    const answer = (await this.session.call("GET", "/history?after=0&limit=200")) as { items?: HistoryItem[] };
    return answer.items ?? [];
  }

  /** Tells the runtime about the page as it is now, as soon as that is allowed. */
  refresh(): void {
    if (this.disposed) return;
    this.contextTimer ??= setTimeout(() => this.refreshNow(), CONTEXT_EVERY_MS);
  }

  /** Lets sound come out; to be called from a click or key press. */
  unlockAudio(): Promise<void> {
    return this.audio.unlock();
  }

  /** Opens the microphone: from then on, whoever speaks has the floor. False where there is none. */
  async openMicrophone(): Promise<boolean> {
    this.floor.handsFree = await this.ensureMicrophone();
    return this.floor.handsFree;
  }

  closeMicrophone(): void {
    if (this.session.machine.state === "user_speaking") this.floor.cancel("muted");
    this.floor.handsFree = false;
    this.shutMicrophone();
  }

  /** Somebody holds the key to talk. */
  async press(): Promise<void> {
    if (this.pressed) return;
    this.pressed = true;
    if ((await this.ensureMicrophone()) && this.pressed) this.floor.begin("ptt");
  }

  /** And lets it go. */
  release(): void {
    if (!this.pressed) return;
    this.pressed = false;
    this.floor.end("ptt_release");
    // Whoever talks only while holding a key does not want to be heard at other times.
    if (!this.floor.handsFree) setTimeout(() => !this.pressed && !this.floor.handsFree && this.closeQuietly(), 2000);
  }

  /** Ends the user's turn without waiting for silence. */
  finishTurn(): void {
    this.floor.end("manual");
  }

  /** Says it in writing. */
  say(text: string): void {
    // Whoever types has touched the page; so the answer may be heard.
    void this.audio.unlock().catch(() => undefined);
    this.floor.say(text);
  }

  /** Makes the assistant stop. */
  interrupt(): void {
    this.floor.interrupt();
  }

  mute(target: "input" | "output", muted: boolean): void {
    if (target === "output") this.audio.setMuted(muted);
    else if (muted) this.closeMicrophone();
    if (this.state !== "not_connected" && this.state !== "connecting") this.session.send("control.mute", { target, muted });
  }

  async hangUp(): Promise<void> {
    this.closeMicrophone();
    await this.playback.halt();
    await this.session.hangUp();
  }

  /** How loud both voices are now, from 0 to 1: for a picture that moves with them. */
  get levels(): { input: number; output: number } {
    return this.audio.levels;
  }

  /** Hangs up, and gives back everything that the page has lent: microphone, loudspeaker, listeners. It cannot be used afterwards. */
  async dispose(): Promise<void> {
    if (this.disposed) return;
    this.disposed = true;
    clearTimeout(this.contextTimer);
    this.page.unwatch();
    const over = this.state === "not_connected" ? Promise.resolve() : new Promise<void>((resolve) => void this.on("ended", () => resolve()));
    await this.hangUp();
    await over;
    this.audio.close();
  }

  private disposed = false;

  private refreshNow(): void {
    clearTimeout(this.contextTimer);
    this.contextTimer = undefined;
    this.feed.show(this.page.screen());
    this.publish();
  }

  private async ensureMicrophone(): Promise<boolean> {
    try {
      await this.audio.openMicrophone();
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error("there is no microphone");
      this.emit("microphone", { open: false, error });
      if (this.state !== "not_connected" && this.state !== "connecting") {
        const message = "The client has no microphone; it goes on in writing.";
        this.session.send("error.recoverable", { code: "REC_MIC_UNAVAILABLE", category: "recognition", message, fatal: false, retryable: false });
      }
      return false;
    }
    this.session.microphone = this.audio.outgoing;
    this.floor.microphone = true;
    this.emit("microphone", { open: true });
    return true;
  }

  private closeQuietly(): void {
    if (this.floor.microphone && this.state !== "user_speaking") this.shutMicrophone();
  }

  private shutMicrophone(): void {
    this.floor.microphone = false;
    this.session.microphone = undefined;
    this.audio.closeMicrophone();
    this.emit("microphone", { open: false });
  }

  private connectParts(): void {
    const { session, audio, floor, playback } = this;
    session.on("event", (event) => this.receive(event));
    session.on("frame", (frame) => playback.frame(frame));
    session.on("track", (media) => audio.playTrack(media));
    session.on("traffic", (traffic) => this.emit("traffic", traffic));
    session.on("reconnecting", (news) => this.emit("reconnecting", news));
    session.on("connected", (news) => this.emit("connected", news));
    session.on("ended", (news) => {
      this.page.unwatch();
      this.closeMicrophone();
      this.emit("ended", news);
    });
    session.machine.watch((transition) => this.moved(transition));
    // What is meant is what is on the screen now, and soon it may not be told any more.
    floor.beforeTurn = () => this.contextTimer && this.refreshNow();
    audio.on("heard", (pcm) => floor.heard(pcm));
    audio.on("progress", ({ stream, playedMs }) => playback.progress(stream, playedMs));
    audio.on("drained", ({ stream, playedMs }) => playback.drained(stream, playedMs));
    floor.on("hearing", (hearing) => this.emit("hearing", hearing));
    floor.on("refused", ({ code, message }) =>
      this.emit("error", { code, category: "protocol", message, fatal: false, retryable: true }),
    );
  }

  private moved(transition: Transition): void {
    this.emit("state", transition);
    this.publish();
    // The event that announces an invocation comes before the state that it leads to.
    for (const invocation of this.awaited.splice(0)) void this.perform(invocation);
    if (transition.state === "idle") this.settleReplayed();
  }

  /** What was asked before the connection was lost is answered, but not done any more. */
  private settleReplayed(): void {
    for (const invocation of this.replayed.splice(0)) {
      this.session.sendResult(this.actions.decline(invocation, "ACT_CANCELLED", "the connection was lost"));
    }
  }

  private receive(event: ServerEvent): void {
    this.playback.receive(event);
    this.floor.receive(event);
    this.captions.receive(event);
    switch (event.type) {
      case "state.ack":
        this.feed.acknowledged(event.data.context_version);
        this.publish();
        break;
      case "state.resync":
        this.feed.resync(event.data.have_version);
        this.publish();
        break;
      case "action.invoke":
        this.invoked(event.data);
        break;
      case "action.cancel":
        this.actions.cancel(event.data.invocation_id);
        break;
      case "session.terminating":
        this.emit("ending", { reason: event.data.reason, inMs: event.data.in_ms });
        break;
      case "error.recoverable":
        if (event.data.code.startsWith("CTX_")) this.feed.rejected(event.data.code === "CTX_INVALID" || event.data.code === "CTX_TOO_LARGE");
        this.emit("error", event.data);
        break;
      case "error.fatal":
        this.emit("error", event.data);
        break;
      default:
        break;
    }
  }

  private invoked(invocation: Invocation): void {
    const state = this.state;
    if (state === "connecting" || state === "not_connected") {
      if (this.replayed.length < MAX_REPLAYED) this.replayed.push(invocation);
    } else if (this.floor.claims && !invocation.parallel) {
      this.session.sendResult(this.actions.decline(invocation, "ACT_USER_INTERRUPTED", "the user spoke first"));
      this.floor.repeat();
    } else if (state === "ai_thinking" && !invocation.parallel) {
      this.awaited.push(invocation);
    } else {
      void this.perform(invocation);
    }
  }

  private async perform(invocation: Invocation): Promise<void> {
    this.session.send("action.ack", { invocation_id: invocation.invocation_id, started: true });
    const result = await this.actions.handle(invocation);
    if (result) this.session.sendResult(result);
  }

  /** What a result says about the screen: everything that changed, in the same breath. */
  private async contextAfter(navigated: boolean) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.feed.show(this.page.screen());
    const update = this.feed.embedded(navigated);
    if (update) this.session.noteContext(update.context_version);
    return update;
  }

  private publish(): void {
    if (this.state === "connecting") return;
    // While an action runs, the screen goes with its result.
    if (this.actions.busy && this.state === "invoke_action") return;
    const update = this.feed.next(this.state, Date.now());
    if (!update) return;
    this.session.noteContext(update.context_version);
    this.session.send("state.update", update);
  }
}
