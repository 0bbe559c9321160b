import assert from "node:assert/strict";
import { test } from "node:test";
import { Resampler } from "../dist/resample.js";
import { level, VoiceDetector } from "../dist/vad.js";
import { pcm } from "./support.mjs";

function tone(hertz, rate, seconds) {
  return Float32Array.from({ length: rate * seconds }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hertz * i) / rate));
}

function resampled(samples, from, to, chunk) {
  const resampler = new Resampler(from, to);
  const parts = [];
  for (let i = 0; i < samples.length; i += chunk) parts.push(...resampler.push(samples.subarray(i, i + chunk)));
  return Float32Array.from(parts);
}

/** How much of that frequency is in there. */
function strength(samples, hertz, rate) {
  let real = 0;
  let imaginary = 0;
  samples.forEach((sample, i) => {
    real += sample * Math.cos((2 * Math.PI * hertz * i) / rate);
    imaginary += sample * Math.sin((2 * Math.PI * hertz * i) / rate);
  });
  return (2 * Math.hypot(real, imaginary)) / samples.length;
}

test("a tone keeps its pitch and its strength at another rate, in pieces of any size", () => {
  for (const [from, to] of [[48000, 16000], [44100, 16000], [24000, 48000], [24000, 44100], [16000, 16000]]) {
    for (const chunk of [128, 960, 77]) {
      const out = resampled(tone(1000, from, 1), from, to, chunk);
      assert.ok(Math.abs(out.length - to) < 60, `${from} ${to}: ${out.length} samples`);
      assert.ok(Math.abs(strength(out, 1000, to) - 0.5) < 0.03, `${from} ${to}: ${strength(out, 1000, to)}`);
    }
  }
});

test("what a lower rate cannot hold does not fold back into it", () => {
  const out = resampled(tone(12000, 48000, 1), 48000, 16000, 128);
  assert.ok(strength(out, 4000, 16000) < 0.005);
});

test("speech is told from silence and from the noise of a room", () => {
  const detector = new VoiceDetector();
  const noise = () => {
    const bytes = new Uint8Array(640);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < 320; i++) view.setInt16(i * 2, Math.round(200 * Math.sin(i * i)), true);
    return bytes;
  };
  for (let i = 0; i < 200; i++) assert.equal(detector.push(noise(), 20).speech, false);
  const onsets = [];
  for (let i = 0; i < 20; i++) if (detector.push(pcm(true), 20).onset) onsets.push(i);
  assert.deepEqual(onsets, [3]);
  let last;
  for (let i = 0; i < 50; i++) last = detector.push(pcm(false), 20);
  assert.deepEqual([last.speech, last.silenceMs], [false, 1000]);
});

test("over the sound of a loudspeaker more is asked", () => {
  const detector = new VoiceDetector();
  const frames = (strict) => {
    detector.reset();
    for (let i = 1; i < 50; i++) if (detector.push(pcm(true), 20, strict).onset) return i;
    return 0;
  };
  assert.deepEqual([frames(false), frames(true)], [4, 9]);
});

test("loudness is in decibels below full scale", () => {
  assert.equal(level(new Uint8Array(640)), -100);
  const full = new Uint8Array(Int16Array.from({ length: 320 }, (_, i) => (i % 2 ? 32767 : -32768)).buffer);
  assert.ok(Math.abs(level(full)) < 0.01);
  assert.equal(level(new Uint8Array(0)), -100);
});
