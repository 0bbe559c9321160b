/** Functions in Node: `createServer(toNode(agent(…))).listen(8787)`. */

interface Incoming extends AsyncIterable<Uint8Array> {
  method?: string;
  url?: string;
  headers: Record<string, string | string[] | undefined>;
}

interface Outgoing {
  writeHead(status: number, headers: Record<string, string>): unknown;
  flushHeaders(): void;
  write(chunk: Uint8Array): boolean;
  once(event: "drain", listener: () => void): unknown;
  on(event: "close", listener: () => void): unknown;
  end(): unknown;
  writableEnded: boolean;
}

/** A handler of requests as a listener of Node's `http` server. */
export function toNode(handler: (request: Request) => Promise<Response>): (request: Incoming, response: Outgoing) => void {
  return (incoming, outgoing) => {
    const controller = new AbortController();
    outgoing.on("close", () => controller.abort());
    const respond = async () => {
      const parts: Uint8Array[] = [];
      if (incoming.method !== "GET" && incoming.method !== "HEAD") for await (const part of incoming) parts.push(part);
      const headers = new Headers();
      for (const [name, value] of Object.entries(incoming.headers)) if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
      const request = new Request(`http://${headers.get("host") ?? "localhost"}${incoming.url ?? "/"}`, {
        method: incoming.method ?? "GET",
        headers,
        signal: controller.signal,
        ...(parts.length > 0 ? { body: new Blob(parts as Uint8Array<ArrayBuffer>[]) } : {}),
      });
      const response = await handler(request);
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      outgoing.flushHeaders();
      const reader = response.body?.getReader();
      controller.signal.addEventListener("abort", () => void reader?.cancel().catch(() => undefined));
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        if (!outgoing.write(part.value)) await new Promise<void>((resolve) => (outgoing.once("drain", resolve), controller.signal.addEventListener("abort", () => resolve())));
      }
      outgoing.end();
    };
    respond().catch(() => {
      if (!outgoing.writableEnded) outgoing.end();
    });
  };
}
