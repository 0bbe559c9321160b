/** The microphone and the loudspeaker of a page. */

import { Emitter } from "./emitter.js";
import type { PlayerCommand, PlayerNews } from "./worklet.js";
import { WORKLET } from "./worklet-source.js";

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
/** Samples that a level is taken of. */
const ANALYSED = 1024;

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
  private inLevel: AnalyserNode | undefined;
  private outLevel: AnalyserNode | undefined;
  private samples = new Float32Array(ANALYSED);
  private lastProgress = { stream: 0, playedMs: 0 };
  private stopped: ((playedMs: number) => void) | undefined;
  private muted = false;

  constructor(
    /** A file to load the worklets from, where the page may not load what it has made itself. */
    private readonly workletUrl: string | URL | undefined,
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
    this.inLevel = new AnalyserNode(context, { fftSize: ANALYSED });
    this.source.connect(this.inLevel);
    const sent = context.createMediaStreamDestination();
    this.source.connect(new DelayNode(context, { delayTime: OUTGOING_DELAY_MS / 1000 })).connect(sent);
    this.outgoing = sent.stream.getAudioTracks()[0];
  }

  closeMicrophone(): void {
    this.source?.disconnect();
    this.recorder?.port.close();
    for (const track of this.media?.getTracks() ?? []) track.stop();
    this.media = this.outgoing = this.source = this.recorder = this.inLevel = undefined;
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
    if (this.context && this.outLevel) this.context.createMediaStreamSource(media).connect(this.outLevel);
  }

  /** How loud both voices are now, from 0 to 1. */
  get levels(): { input: number; output: number } {
    return { input: this.loudness(this.inLevel), output: this.muted || this.element?.muted ? 0 : this.loudness(this.outLevel) };
  }

  private loudness(node: AnalyserNode | undefined): number {
    if (!node) return 0;
    node.getFloatTimeDomainData(this.samples);
    let sum = 0;
    for (const sample of this.samples) sum += sample * sample;
    return Math.min(1, Math.sqrt(sum / this.samples.length) * 4);
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
    this.player?.port.close();
    if (this.element) this.element.srcObject = null;
    void this.context?.close().catch(() => undefined);
    this.context = this.loading = this.player = this.volume = this.outLevel = this.element = undefined;
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
    await loadWorklets(context, this.workletUrl);
    const player = new AudioWorkletNode(context, "vip-player", {
      numberOfInputs: 0,
      numberOfOutputs: 1,
      outputChannelCount: [1],
      processorOptions: { rate: this.rates().output },
    });
    const volume = context.createGain();
    player.connect(volume).connect(context.destination);
    this.outLevel = new AnalyserNode(context, { fftSize: ANALYSED });
    volume.connect(this.outLevel);
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

/** The worklets are part of this package, so that no bundler has to carry a file along. */
async function loadWorklets(context: AudioContext, url: string | URL | undefined): Promise<void> {
  if (url !== undefined) return context.audioWorklet.addModule(url);
  const own = URL.createObjectURL(new Blob([WORKLET], { type: "text/javascript" }));
  try {
    await context.audioWorklet.addModule(own);
  } catch (error) {
    throw new Error("the worklets could not be loaded: a page that forbids blob: in script-src has to serve worklet.js and name it in workletUrl", { cause: error });
  } finally {
    URL.revokeObjectURL(own);
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
