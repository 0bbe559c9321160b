/** Answers that travel compressed: `createClient({ inflate, … })`. Apart from the rest, since most answers are too short to gain. */

import { Inflate } from "fflate";

/** Unpacks raw DEFLATE; undefined where it is damaged, or gives more than `limit` bytes. */
export function inflate(packed: Uint8Array, limit: number): Uint8Array | undefined {
  const parts: Uint8Array[] = [];
  let size = 0;
  let ended = false;
  const stream = new Inflate((part, last) => {
    size += part.length;
    ended ||= last;
    if (size <= limit) parts.push(part);
  });
  try {
    // In steps, so that what is too large is noticed before all of it is there.
    for (let at = 0; at < packed.length && size <= limit; at += STEP) stream.push(packed.subarray(at, at + STEP), at + STEP >= packed.length);
  } catch {
    return undefined;
  }
  if (size > limit || !ended) return undefined;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const STEP = 1024;
