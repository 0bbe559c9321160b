/** What runs on the audio thread: the microphone becomes frames, and frames become sound. Bundled by itself. */

import { floatsOfPcm, pcmOfFloats } from "./frames.js";
import { Resampler } from "./resample.js";

// The globals of an AudioWorkletGlobalScope, which the DOM types leave out.
declare const sampleRate: number;
declare function registerProcessor(name: string, processor: new (options: { processorOptions: { rate: number } }) => AudioWorkletProcessor): void;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

/** What the page tells the player. */
export type PlayerCommand =
  | { command: "play"; stream: number; pcm: Uint8Array }
  | { command: "end"; stream: number }
  | { command: "stop" };

/** What the player tells the page. Times are of the stream, in milliseconds that were really played. */
export type PlayerNews =
  | { news: "progress"; stream: number; playedMs: number }
  | { news: "drained"; stream: number; playedMs: number }
  | { news: "stopped"; stream: number; playedMs: number };

const FRAME_MS = 20;
const PROGRESS_MS = 100;
/** The server runs at most 5 s ahead; twice that is a fault. */
const MAX_QUEUED_S = 10;

class Recorder extends AudioWorkletProcessor {
  private readonly resampler: Resampler;
  private readonly frame: Float32Array;
  private filled = 0;

  constructor(options: { processorOptions: { rate: number } }) {
    super();
    const { rate } = options.processorOptions;
    this.resampler = new Resampler(sampleRate, rate);
    this.frame = new Float32Array((rate * FRAME_MS) / 1000);
  }

  process(inputs: Float32Array[][]): boolean {
    const channel = inputs[0]?.[0];
    if (!channel) return true;
    for (const sample of this.resampler.push(channel)) {
      this.frame[this.filled++] = sample;
      if (this.filled === this.frame.length) {
        this.filled = 0;
        const pcm = pcmOfFloats(this.frame);
        this.port.postMessage(pcm, [pcm.buffer]);
      }
    }
    return true;
  }
}

class Player extends AudioWorkletProcessor {
  private resampler: Resampler;
  private stream = 0;
  private queue: Float32Array[] = [];
  private head = 0;
  private queued = 0;
  private played = 0;
  private sinceProgress = 0;
  private ended = false;

  constructor(private readonly options: { processorOptions: { rate: number } }) {
    super();
    this.resampler = this.fresh();
    this.port.onmessage = (message: MessageEvent<PlayerCommand>) => this.obey(message.data);
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const channels = outputs[0] ?? [];
    const output = channels[0];
    if (!output) return true;
    let filled = 0;
    for (let first = this.queue[0]; first && filled < output.length; first = this.queue[0]) {
      const count = Math.min(output.length - filled, first.length - this.head);
      output.set(first.subarray(this.head, this.head + count), filled);
      filled += count;
      this.head += count;
      if (this.head === first.length) {
        this.queue.shift();
        this.head = 0;
      }
    }
    for (const other of channels.slice(1)) other.set(output);
    this.queued -= filled;
    this.played += filled;
    this.sinceProgress += filled;
    if (this.ended && this.queued === 0) {
      this.ended = false;
      this.tell("drained");
    } else if (filled && this.sinceProgress >= (sampleRate * PROGRESS_MS) / 1000) {
      this.sinceProgress = 0;
      this.tell("progress");
    }
    return true;
  }

  private obey(message: PlayerCommand): void {
    switch (message.command) {
      case "play": {
        if (message.stream !== this.stream) this.begin(message.stream);
        const samples = this.resampler.push(floatsOfPcm(message.pcm));
        if (this.queued + samples.length <= sampleRate * MAX_QUEUED_S && samples.length) {
          this.queue.push(samples);
          this.queued += samples.length;
        }
        break;
      }
      case "end":
        if (message.stream !== this.stream) this.begin(message.stream);
        this.ended = true;
        break;
      case "stop":
        this.tell("stopped");
        this.begin(0);
        break;
    }
  }

  private begin(stream: number): void {
    this.stream = stream;
    this.queue = [];
    this.head = 0;
    this.queued = 0;
    this.played = 0;
    this.ended = false;
    this.resampler = this.fresh();
  }

  private fresh(): Resampler {
    return new Resampler(this.options.processorOptions.rate, sampleRate);
  }

  private tell(news: PlayerNews["news"]): void {
    const told: PlayerNews = { news, stream: this.stream, playedMs: Math.round((this.played / sampleRate) * 1000) };
    this.port.postMessage(told);
  }
}

registerProcessor("vip-recorder", Recorder);
registerProcessor("vip-player", Player);
