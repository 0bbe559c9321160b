/** Functions on AWS Lambda with a function URL, whose answer is sent when it is complete. */

interface LambdaEvent {
  requestContext: { http: { method: string; path: string } };
  headers: Record<string, string | undefined>;
  body?: string;
  isBase64Encoded?: boolean;
}

export interface LambdaResult {
  statusCode: number;
  headers: Record<string, string>;
  body: string;
}

/** A handler of requests as one of Lambda. Without response streaming all of an answer comes at its end. */
export function toLambda(handler: (request: Request) => Promise<Response>): (event: LambdaEvent) => Promise<LambdaResult> {
  return async (event) => {
    const headers = new Headers();
    for (const [name, value] of Object.entries(event.headers)) if (value !== undefined) headers.set(name, value);
    const body = event.body === undefined ? undefined : event.isBase64Encoded ? Uint8Array.from(atob(event.body), (letter) => letter.charCodeAt(0)) : event.body;
    const { method, path } = event.requestContext.http;
    const response = await handler(new Request(`https://${headers.get("host") ?? "function"}${path}`, { method, headers, ...(body === undefined ? {} : { body }) }));
    return { statusCode: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
  };
}
