/** Whether a request comes from the relay: the signature, its age, and what it is about. */

/** A request that is refused, and the status to refuse it with. */
export class Refused extends Error {
  override name = "Refused";

  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Clocks may be this far apart. */
const SKEW_S = 300;

/** The key of a secret: base64 after `whsec_`. */
export function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const encoded = secret.trim().replace(/^whsec_/, "");
  try {
    const key = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    if (key.length >= 16) return key;
  } catch {
    // Said below.
  }
  throw new TypeError("the secret is not whsec_ and a key of at least 16 bytes in base64");
}

/** Throws a `Refused` unless one of the signatures is of one of the keys. Keys are compared by the platform, in constant time. */
export async function verify(headers: Headers, body: Uint8Array<ArrayBuffer>, secrets: readonly string[], nowS: number): Promise<void> {
  const id = headers.get("webhook-id");
  const timestamp = headers.get("webhook-timestamp");
  const signatures = headers.get("webhook-signature");
  if (!id || !timestamp || !signatures) throw new Refused(401, "webhook-id, webhook-timestamp and webhook-signature are needed");
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new Refused(401, "webhook-timestamp must be whole Unix seconds");
  if (Math.abs(nowS - Number(timestamp)) > SKEW_S) throw new Refused(401, "the request is too old, or the clocks are apart");
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + body.length);
  signed.set(head);
  signed.set(body, head.length);
  const given = signatures.split(" ").filter((entry) => entry.startsWith("v1,")).slice(0, 8);
  for (const secret of secrets) {
    const key = await crypto.subtle.importKey("raw", keyOf(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const entry of given) {
      let signature;
      try {
        signature = Uint8Array.from(atob(entry.slice(3)), (letter) => letter.charCodeAt(0));
      } catch {
        continue;
      }
      if (await crypto.subtle.verify("HMAC", key, signature, signed)) return;
    }
  }
  throw new Refused(401, "the signature is not valid");
}
