/** What was said, read over the admin API: the names of sessions are the caller's own. */

import { errorOfCause, type SwitchboardError } from "./errors.js";
import type { ResponseLike } from "./platform.js";
import type { Message } from "./types.js";
import { isMap, type Value } from "./wire/value.js";

interface Http {
  http(path: string): Promise<ResponseLike>;
}

export async function messagesOf(client: Http, session: string, options: { limit?: number; before?: string }): Promise<Message[]> {
  const query = [
    ...(options.limit === undefined ? [] : [`limit=${options.limit}`]),
    ...(options.before === undefined ? [] : [`tip=${encodeURIComponent(options.before)}`]),
  ].join("&");
  const response = await client.http(`/admin/v1/sessions/${encodeURIComponent(session)}/messages${query ? `?${query}` : ""}`);
  if (response.status === 404) return [];
  if (!response.ok) throw await errorOfResponse(response);
  const { messages } = JSON.parse(await response.text()) as { messages: Record<string, Value>[] };
  return messages.reverse().map(messageOf);
}

function messageOf(stored: Record<string, Value>): Message {
  const byAgent = isMap(stored["author"]) && "agent" in stored["author"];
  const parts = Array.isArray(stored["parts"]) ? stored["parts"] : [];
  const text = parts.map((part) => (typeof part === "string" ? part : isMap(part) && typeof part["text"] === "string" ? part["text"] : "")).join("");
  return {
    id: String(stored["message"] ?? stored["id"]),
    role: byAgent ? "assistant" : "user",
    text,
    parts,
    ...(typeof stored["at"] === "number" ? { at: stored["at"] / 1000 } : {}),
    ...(typeof stored["parent"] === "string" ? { parent: stored["parent"] } : {}),
  };
}

/** The error that a refusal over HTTP stands for. */
export async function errorOfResponse(response: ResponseLike): Promise<SwitchboardError> {
  const after = Number(response.headers.get("retry-after"));
  return errorOfCause({ type: "refused", status: response.status, ...(after > 0 ? { retryAfterMs: after * 1000 } : {}), message: (await response.text()).slice(0, 200) });
}
