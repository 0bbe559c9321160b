/** The microphone and the loudspeaker of a page. */

import { Emitter } from "./emitter.js";
import type { PlayerCommand, PlayerNews } from "./worklet.js";

export interface AudioEvents {
  /** 20 ms from the microphone, as PCM16. */
  heard: Uint8Array;
  progress: { stream: number; playedMs: number };
  /** The last sample of the stream was played. */
  drained: { stream: number; playedMs: number };
}

/** How late the outgoing track is. */
export const OUTGOING_DELAY_MS = 300;

/** A worklet that does not answer in this time is not running. */
const STOP_TIMEOUT_MS = 80;

export class Audio extends Emitter<AudioEvents> {
  /**
   * The open microphone as a track to send, a little late: who speaks is noticed only after a
   * moment, and by then the first word would be over.
   */
  outgoing: MediaStreamTrack | undefined;

  private context: AudioContext | undefined;
  private loading: Promise<AudioContext> | undefined;
  private player: AudioWorkletNode | undefined;
  private volume: GainNode | undefined;
  private recorder: AudioWorkletNode | undefined;
  private source: MediaStreamAudioSourceNode | undefined;
  private media: MediaStream | undefined;
  private element: HTMLAudioElement | undefined;
  private lastProgress = { stream: 0, playedMs: 0 };
  private stopped: ((playedMs: number) => void) | undefined;
  private muted = false;

  constructor(
    private readonly workletUrl: string | URL,
    private readonly rates: () => { input: number; output: number },
  ) {
    super();
  }

  /** Whether sound can come out: browsers allow it only after the page was touched. */
  get audible(): boolean {
    return this.context?.state === "running" && this.player !== undefined;
  }

  /** Gets the loudspeaker ready. To be called from a click or key press. */
  async unlock(): Promise<void> {
    const context = await this.load();
    if (context.state === "suspended") await Promise.race([context.resume(), delay(500)]);
  }

  /** Opens the microphone; throws where there is none, or it is not allowed. */
  async openMicrophone(): Promise<void> {
    if (this.media) return;
    if (!navigator.mediaDevices?.getUserMedia) throw new Error("this page has no access to a microphone");
    const context = await this.load();
    const media = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
    });
    if (context.state === "suspended") await Promise.race([context.resume(), delay(500)]);
    this.media = media;
    this.source = context.createMediaStreamSource(media);
    this.recorder = new AudioWorkletNode(context, "vip-recorder", {
      numberOfInputs: 1,
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: "explicit",
      processorOptions: { rate: this.rates().input },
    });
    this.recorder.port.onmessage = (message: MessageEvent<Uint8Array>) => this.emit("heard", message.data);
    this.source.connect(this.recorder);
    const sent = context.createMediaStreamDestination();
    this.source.connect(new DelayNode(context, { delayTime: OUTGOING_DELAY_MS / 1000 })).connect(sent);
    this.outgoing = sent.stream.getAudioTracks()[0];
  }

  closeMicrophone(): void {
    this.source?.disconnect();
    this.recorder?.port.close();
    for (const track of this.media?.getTracks() ?? []) track.stop();
    this.media = this.outgoing = this.source = this.recorder = undefined;
  }

  /** Queues samples of a stream; a new stream replaces the old one. */
  play(stream: number, pcm: Uint8Array): void {
    this.order({ command: "play", stream, pcm });
  }

  /** Nothing follows in this stream; `drained` follows once it has been played. */
  end(stream: number): void {
    this.order({ command: "end", stream });
  }

  /** Silence, at once. Returns how much of the stream was played. */
  async stop(): Promise<number> {
    const { player, volume, context } = this;
    if (this.element) this.element.muted = true;
    if (!player || !context) return 0;
    // The gain cuts what the audio thread has already mixed.
    volume?.gain.setValueAtTime(0, context.currentTime);
    const asked = new Promise<number>((resolve) => (this.stopped = resolve));
    this.order({ command: "stop" });
    const played = await Promise.race([asked, delay(STOP_TIMEOUT_MS).then(() => this.lastProgress.playedMs)]);
    this.stopped = undefined;
    volume?.gain.setValueAtTime(this.muted ? 0 : 1, context.currentTime);
    // What left the audio thread is heard a little later.
    return Math.max(0, Math.round(played - (context.outputLatency || 0) * 1000));
  }

  /** Plays a track that does not come in frames. */
  playTrack(media: MediaStream): void {
    this.element ??= new globalThis.Audio();
    this.element.srcObject = media;
    void this.element.play().catch(() => undefined);
  }

  /** Lets a track be heard again that was cut off. */
  resume(): void {
    if (this.element) this.element.muted = this.muted;
  }

  setMuted(muted: boolean): void {
    this.muted = muted;
    if (this.element) this.element.muted = muted;
    if (this.context) this.volume?.gain.setValueAtTime(muted ? 0 : 1, this.context.currentTime);
  }

  close(): void {
    this.closeMicrophone();
    void this.context?.close();
    this.context = this.loading = this.player = this.volume = undefined;
  }

  private load(): Promise<AudioContext> {
    this.loading ??= this.open().catch((error: unknown) => {
      this.loading = undefined;
      throw error;
    });
    return this.loading;
  }

  private async open(): Promise<AudioContext> {
    const context = new AudioContext({ latencyHint: "interactive" });
    await context.audioWorklet.addModule(this.workletUrl);
    const player = new AudioWorkletNode(context, "vip-player", {
      numberOfInputs: 0,
      numberOfOutputs: 1,
      outputChannelCount: [1],
      processorOptions: { rate: this.rates().output },
    });
    const volume = context.createGain();
    player.connect(volume).connect(context.destination);
    player.port.onmessage = (message: MessageEvent<PlayerNews>) => this.hear(message.data);
    this.context = context;
    this.player = player;
    this.volume = volume;
    this.setMuted(this.muted);
    return context;
  }

  private hear(news: PlayerNews): void {
    const position = { stream: news.stream, playedMs: news.playedMs };
    this.lastProgress = position;
    if (news.news === "stopped") this.stopped?.(news.playedMs);
    else this.emit(news.news, position);
  }

  private order(command: PlayerCommand): void {
    this.player?.port.postMessage(command);
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
