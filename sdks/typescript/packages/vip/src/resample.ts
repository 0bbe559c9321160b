/** Changes the rate of a stream of samples: a windowed sinc, cut off below the lower of the two rates. */

const ZERO_CROSSINGS = 12;
const TABLE_STEPS = 256;

export class Resampler {
  private readonly step: number;
  private readonly reach: number;
  private readonly scale: number;
  private readonly kernel: Float32Array;
  private held: Float32Array;
  /** Where the next output sample lies, counted in input samples from the first held one. */
  private position: number;

  constructor(from: number, to: number) {
    this.step = from / to;
    // Below 1 when the rate falls: then the kernel is wider, and keeps out what would fold back.
    this.scale = Math.min(1, to / from) * 0.95;
    this.reach = Math.ceil(ZERO_CROSSINGS / this.scale);
    this.kernel = kernelTable();
    this.held = new Float32Array(this.reach);
    this.position = this.reach;
  }

  /** The output that the input so far allows. */
  push(input: Float32Array): Float32Array {
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

  private sampleAt(samples: Float32Array, position: number): number {
    const first = Math.max(0, Math.ceil(position - this.reach));
    const last = Math.min(samples.length - 1, Math.floor(position + this.reach));
    let sum = 0;
    for (let i = first; i <= last; i++) {
      const distance = Math.abs(i - position) * this.scale;
      sum += (samples[i] ?? 0) * (this.kernel[Math.round(distance * TABLE_STEPS)] ?? 0);
    }
    return sum * this.scale;
  }
}

function kernelTable(): Float32Array {
  const table = new Float32Array(ZERO_CROSSINGS * TABLE_STEPS + 1);
  for (let i = 0; i < table.length; i++) {
    const x = i / TABLE_STEPS;
    const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
    const window = 0.5 + 0.5 * Math.cos((Math.PI * x) / ZERO_CROSSINGS);
    table[i] = sinc * window;
  }
  return table;
}
