/** Audio on the wire: a header of 12 bytes, big-endian, then the samples. */

export const INPUT = 1;
export const OUTPUT = 2;
export const END = 0x01;
export const MONITOR = 0x02;
export const GAP = 0x04;

const VERSION = 1;
const HEADER = 12;

export interface AudioFrame {
  /** {@link INPUT} to the server, {@link OUTPUT} from it. */
  kind: number;
  /** Any of {@link END}, {@link MONITOR}, {@link GAP}. */
  flags: number;
  stream: number;
  seq: number;
  offsetMs: number;
  payload: Uint8Array;
}

export function encodeFrame(frame: AudioFrame): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER + frame.payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, (VERSION << 4) | frame.kind);
  view.setUint8(1, frame.flags);
  view.setUint16(2, frame.stream);
  view.setUint32(4, frame.seq);
  view.setUint32(8, frame.offsetMs);
  bytes.set(frame.payload, HEADER);
  return bytes;
}

/** The frame, or nothing where the bytes are none. */
export function decodeFrame(bytes: Uint8Array): AudioFrame | undefined {
  if (bytes.length < HEADER) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = view.getUint8(0);
  const kind = first & 0x0f;
  const flags = view.getUint8(1);
  if (first >> 4 !== VERSION || (kind !== INPUT && kind !== OUTPUT) || flags & ~(END | MONITOR | GAP)) return undefined;
  return {
    kind,
    flags,
    stream: view.getUint16(2),
    seq: view.getUint32(4),
    offsetMs: view.getUint32(8),
    payload: bytes.subarray(HEADER),
  };
}

/** Samples of PCM16 as numbers from -1 to 1. */
export function floatsOfPcm(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength & ~1);
  const samples = new Float32Array(view.byteLength / 2);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(i * 2, true) / 32768;
  return samples;
}

/** Numbers from -1 to 1 as samples of PCM16. */
export function pcmOfFloats(samples: Float32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < samples.length; i++) {
    const sample = Math.round((samples[i] ?? 0) * 32768);
    view.setInt16(i * 2, Math.max(-32768, Math.min(32767, sample)), true);
  }
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x2000) text += String.fromCharCode(...bytes.subarray(i, i + 0x2000));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
