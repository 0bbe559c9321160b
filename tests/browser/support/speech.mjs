/** Speech for the browser's microphone: sentences with silence between them, as one WAV file. */

import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const RATE = 48_000;

/**
 * Writes what a microphone hears: numbers are seconds of silence, texts are spoken. The browser
 * needs a moment after it opened the file, so that it should begin with two seconds of silence.
 */
export async function recording(file, ...parts) {
  const pieces = [];
  for (const part of parts) {
    pieces.push(typeof part === "number" ? new Int16Array(Math.round(part * RATE)) : await spoken(part, `${file}.part`));
  }
  const samples = new Int16Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    samples.set(piece, at);
    at += piece.length;
  }
  await writeFile(file, wav(samples));
  return file;
}

async function spoken(text, file) {
  await run("flite", ["-voice", "slt", "-t", text, "-o", file]);
  const bytes = await readFile(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rate = view.getUint32(24, true);
  let at = 12;
  while (view.getUint32(at, false) !== 0x64617461) at += 8 + view.getUint32(at + 4, true);
  const count = Math.min(view.getUint32(at + 4, true), bytes.length - at - 8) >> 1;
  const source = Float32Array.from({ length: count }, (_, i) => view.getInt16(at + 8 + i * 2, true));
  // Straight lines between the samples are good enough for a rate that is three times as high.
  return Int16Array.from({ length: Math.floor(((count - 1) * RATE) / rate) }, (_, i) => {
    const position = (i * rate) / RATE;
    const index = Math.floor(position);
    return source[index] + (source[index + 1] - source[index]) * (position - index);
  });
}

function wav(samples) {
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + samples.byteLength, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(RATE, 24);
  head.writeUInt32LE(RATE * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(samples.byteLength, 40);
  return Buffer.concat([head, Buffer.from(samples.buffer)]);
}
