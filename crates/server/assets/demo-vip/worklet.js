// packages/vip/src/frames.ts
function floatsOfPcm(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength & ~1);
  const samples = new Float32Array(view.byteLength / 2);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(i * 2, true) / 32768;
  return samples;
}
function pcmOfFloats(samples) {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < samples.length; i++) {
    const sample = Math.round((samples[i] ?? 0) * 32768);
    view.setInt16(i * 2, Math.max(-32768, Math.min(32767, sample)), true);
  }
  return bytes;
}

// packages/vip/src/resample.ts
var ZERO_CROSSINGS = 12;
var TABLE_STEPS = 256;
var Resampler = class {
  step;
  reach;
  scale;
  kernel;
  held;
  /** Where the next output sample lies, counted in input samples from the first held one. */
  position;
  constructor(from, to) {
    this.step = from / to;
    this.scale = Math.min(1, to / from) * 0.95;
    this.reach = Math.ceil(ZERO_CROSSINGS / this.scale);
    this.kernel = kernelTable();
    this.held = new Float32Array(this.reach);
    this.position = this.reach;
  }
  /** The output that the input so far allows. */
  push(input) {
    const all = new Float32Array(this.held.length + input.length);
    all.set(this.held);
    all.set(input, this.held.length);
    const count = Math.max(0, Math.ceil((all.length - this.reach - this.position) / this.step));
    const output = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      output[i] = this.sampleAt(all, this.position);
      this.position += this.step;
    }
    const keepFrom = Math.min(all.length, Math.max(0, Math.floor(this.position) - this.reach));
    this.held = all.slice(keepFrom);
    this.position -= keepFrom;
    return output;
  }
  sampleAt(samples, position) {
    const first = Math.max(0, Math.ceil(position - this.reach));
    const last = Math.min(samples.length - 1, Math.floor(position + this.reach));
    let sum = 0;
    for (let i = first; i <= last; i++) {
      const distance = Math.abs(i - position) * this.scale;
      sum += (samples[i] ?? 0) * (this.kernel[Math.round(distance * TABLE_STEPS)] ?? 0);
    }
    return sum * this.scale;
  }
};
function kernelTable() {
  const table = new Float32Array(ZERO_CROSSINGS * TABLE_STEPS + 1);
  for (let i = 0; i < table.length; i++) {
    const x = i / TABLE_STEPS;
    const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
    const window = 0.5 + 0.5 * Math.cos(Math.PI * x / ZERO_CROSSINGS);
    table[i] = sinc * window;
  }
  return table;
}

// packages/vip/src/worklet.ts
var FRAME_MS = 20;
var PROGRESS_MS = 100;
var MAX_QUEUED_S = 10;
var Recorder = class extends AudioWorkletProcessor {
  resampler;
  frame;
  filled = 0;
  constructor(options) {
    super();
    const { rate } = options.processorOptions;
    this.resampler = new Resampler(sampleRate, rate);
    this.frame = new Float32Array(rate * FRAME_MS / 1e3);
  }
  process(inputs) {
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
};
var Player = class extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.options = options;
    this.resampler = this.fresh();
    this.port.onmessage = (message) => this.obey(message.data);
  }
  options;
  resampler;
  stream = 0;
  queue = [];
  head = 0;
  queued = 0;
  played = 0;
  sinceProgress = 0;
  ended = false;
  process(_inputs, outputs) {
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
    } else if (filled && this.sinceProgress >= sampleRate * PROGRESS_MS / 1e3) {
      this.sinceProgress = 0;
      this.tell("progress");
    }
    return true;
  }
  obey(message) {
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
  begin(stream) {
    this.stream = stream;
    this.queue = [];
    this.head = 0;
    this.queued = 0;
    this.played = 0;
    this.ended = false;
    this.resampler = this.fresh();
  }
  fresh() {
    return new Resampler(this.options.processorOptions.rate, sampleRate);
  }
  tell(news) {
    const told = { news, stream: this.stream, playedMs: Math.round(this.played / sampleRate * 1e3) };
    this.port.postMessage(told);
  }
};
registerProcessor("vip-recorder", Recorder);
registerProcessor("vip-player", Player);
