/** Maps as MessagePack instead of JSON: `createClient({ msgpack, … })`. Worth it where bytes are sent, which JSON writes as base64. */

import { decodeMsgpack, encodeMsgpack } from "./wire/msgpack.js";
import type { Value } from "./wire/value.js";

export const msgpack = {
  encode: (value: Value): Uint8Array => encodeMsgpack(value),
  decode: (bytes: Uint8Array): Value => decodeMsgpack(bytes),
};
