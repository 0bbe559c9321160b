/** UTF-8, also where there is no `TextDecoder`. */

import { platform } from "../platform.js";

const native = platform.TextDecoder && new platform.TextDecoder("utf-8", { fatal: true });
const encoder = platform.TextEncoder && new platform.TextEncoder();

/** The text of these bytes; undefined if they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  if (bytes.length < 24 || !native) return decodeShort(bytes);
  try {
    const text = native.decode(bytes);
    // The decoder takes a byte order mark away, which is content here.
    return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? `\ufeff${text}` : text;
  } catch {
    return undefined;
  }
}

export function encodeUtf8(text: string): Uint8Array {
  if (encoder) return encoder.encode(text);
  const bytes: number[] = [];
  for (const symbol of text) {
    let point = symbol.codePointAt(0) ?? 0;
    if (point >= 0xd800 && point <= 0xdfff) point = 0xfffd;
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63));
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
    else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  }
  return new Uint8Array(bytes);
}

function decodeShort(bytes: Uint8Array): string | undefined {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++]!;
    if (first < 0x80) {
      text += String.fromCharCode(first);
      continue;
    }
    const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4) return undefined;
    let point = first & (0x3f >> more);
    for (let left = more; left > 0; left -= 1) {
      const next = bytes[at++];
      if (next === undefined || (next & 0xc0) !== 0x80) return undefined;
      point = (point << 6) | (next & 0x3f);
    }
    const least = [0, 0x80, 0x800, 0x10000][more]!;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return undefined;
    text += String.fromCodePoint(point);
  }
  return text;
}
