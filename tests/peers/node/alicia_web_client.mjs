// A web client of Alicia's lite profile, as far as the protocol goes: one socket with `msgpackr`, HTTP for all that is
// stored, and React hooks that hold what a page shows. It has no credential of its own; see `proxy`.
//
// It is as particular as web clients are: an answer to a question that it does not know, a memory that belongs to no
// answer, and bubbles without text are noted in `complaints`.

import { createServer, request as ask } from "node:http";
import { connect } from "node:net";

import { Packr, unpack } from "msgpackr";
import { createElement as h, useCallback, useEffect, useReducer, useRef } from "react";
import WebSocket from "ws";

const T = {
  ERROR: 1, USER: 2, ASSISTANT: 3, REASONING: 5, REQUEST: 6, RESULT: 7, START: 13, MEMORY: 14, SENTENCE: 16,
  GENERATE: 33, TITLE: 35, SUBSCRIBE: 40, SUBSCRIBED: 42, JOIN: 51, JOINED: 52, COMPLETE: 80,
};
export { T };

// Maps with a header of 16 bits, as browsers write them.
const packr = new Packr({ useRecords: false, variableMapSize: false, encodeUndefinedAsNil: false });
const USER = "user_device_5f3a";

/** What stands before a server and knows who the user is: it adds the credential to every request, upgrades included. */
export async function proxy(upstream, token) {
  const { hostname, port, host } = new URL(upstream);
  const headers = (incoming) => ({ ...incoming, host, authorization: `Bearer ${token}` });
  const server = createServer((request, response) => {
    const { method, url } = request;
    const onward = ask({ hostname, port, method, path: url, headers: headers(request.headers) }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  server.on("upgrade", (request, socket) => {
    const onward = connect(Number(port), hostname, () => {
      const lines = Object.entries(headers(request.headers)).map(([name, value]) => `${name}: ${value}`);
      onward.write([`GET ${request.url} HTTP/1.1`, ...lines, "", ""].join("\r\n"));
      onward.pipe(socket).pipe(onward);
    });
    for (const end of [socket, onward]) end.on("error", () => [socket, onward].forEach((other) => other.destroy()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { base: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** HTTP, with the name to show that web clients send along. */
export function api(base) {
  return async (method, path, body) => {
    const response = await fetch(`${base}/api/v1${path}`, {
      method,
      headers: { "content-type": "application/json", "x-user-id": USER },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  };
}

/** The one socket of a page. */
export class Socket {
  constructor(base) {
    this.listeners = new Map();
    this.socket = new WebSocket(`${base.replace("http", "ws")}/api/v1/ws`);
    this.socket.binaryType = "nodebuffer";
    this.open = new Promise((resolve, reject) => this.socket.once("open", resolve).once("error", reject));
    this.socket.on("message", (bytes) => {
      const { conversationId, type, body } = unpack(bytes);
      for (const listener of this.listeners.get(conversationId) ?? []) listener(type, body);
    });
  }

  async send(conversationId, type, body) {
    await this.open;
    const envelope = { conversationId, type, user_id: USER, session_id: conversationId };
    this.socket.send(packr.pack({ ...envelope, body: { conversationId, ...body, timestamp: undefined } }));
  }

  listen(conversation, listener) {
    const listeners = this.listeners.get(conversation) ?? new Set();
    this.listeners.set(conversation, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  close() {
    this.socket.close();
  }
}

const EMPTY = { phase: "new", title: "", messages: [], voice: "", complaints: [] };

/** What a page makes of what it is told. */
function reduce(state, { type, body }) {
  const known = (id) => state.messages.find((message) => message.id === id);
  const change = (id, change) => ({
    ...state,
    messages: state.messages.map((message) => (message.id === id ? { ...message, ...change(message) } : message)),
  });
  const complain = (words) => ({ ...state, complaints: [...state.complaints, words] });
  const add = (message) => ({ ...state, messages: [...state.messages, { tools: [], memories: [], ...message }] });
  switch (type) {
    case "loaded":
      return { ...state, phase: "ready", messages: body };
    case "posted":
    case T.USER:
      return known(body.id) ? state : add({ id: body.id, role: "user", text: body.content, status: "completed" });
    case T.SUBSCRIBED:
      return body.success ? { ...state, phase: "subscribed" } : complain(`not subscribed: ${body.error}`);
    case T.START: {
      const started = add({ id: body.messageId, role: "assistant", text: "", status: "streaming" });
      return known(body.previousId) ? started : complain(`${body.messageId} answers something unknown`);
    }
    case T.SENTENCE:
      if (!known(body.messageId)) return complain("a sentence of something unknown");
      return change(body.messageId, ({ text }) => ({ text: text && body.text ? `${text.trimEnd()} ${body.text}` : text + body.text }));
    case T.ASSISTANT:
      return known(body.id) ? change(body.id, () => ({ text: body.content })) : complain("a text of something unknown");
    case T.MEMORY:
      if (known(body.messageId)?.role !== "assistant") return complain("a memory that belongs to no answer");
      return change(body.messageId, ({ memories }) => ({ memories: [...memories, body.content] }));
    case T.REQUEST:
      return change(body.messageId, ({ tools }) => ({ tools: [...tools, { id: body.id, name: body.toolName, status: "pending" }] }));
    case T.RESULT:
      return {
        ...state,
        messages: state.messages.map((message) => ({
          ...message,
          tools: message.tools.map((tool) =>
            tool.id === body.requestId ? { ...tool, status: body.success ? "success" : body.error } : tool),
        })),
      };
    case T.ERROR:
      if (!known(body.messageId)) return complain(`an error of something unknown: ${body.message}`);
      return change(body.messageId, () => ({ status: "error", error: body.message }));
    case T.COMPLETE:
      return change(body.messageId, ({ status }) => ({ status: body.success ? "completed" : status === "error" ? "error" : "stopped" }));
    case T.TITLE:
      return { ...state, title: body.title };
    case T.JOINED:
      return { ...state, voice: body.success ? "joined" : `no voice: ${body.error}` };
    default:
      return state;
  }
}

/** A conversation as a page holds it: loaded over HTTP, followed on the socket. */
export function useConversation({ call, socket, conversation }) {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  useEffect(() => {
    let gone = false;
    const forget = socket.listen(conversation, (type, body) => gone || dispatch({ type, body }));
    load(call, conversation).then((messages) => {
      if (gone) return;
      dispatch({ type: "loaded", body: messages });
      socket.send(conversation, T.SUBSCRIBE, {});
    });
    return () => {
      gone = true;
      forget();
    };
  }, [call, socket, conversation]);
  const send = useCallback(
    async (content) => dispatch({ type: "posted", body: await call("POST", `/conversations/${conversation}/messages`, { content }) }),
    [call, conversation],
  );
  const regenerate = useCallback(
    (messageId) => socket.send(conversation, T.GENERATE, { messageId, requestType: "regenerate", enableStreaming: true }),
    [socket, conversation],
  );
  const join = useCallback(() => socket.send(conversation, T.JOIN, { userId: USER }), [socket, conversation]);
  return { state, send, regenerate, join };
}

/** All that is stored of a conversation, as a page needs it after a reload. */
async function load(call, conversation) {
  const { messages } = await call("GET", `/conversations/${conversation}/messages`);
  return Promise.all(
    messages.map(async ({ id, role, content, status }) => {
      const [{ tool_uses }, { memory_uses }] = await Promise.all([
        call("GET", `/messages/${id}/tool-uses`),
        call("GET", `/messages/${id}/memory-uses`),
      ]);
      const tools = tool_uses.map((use) => ({ id: use.id, name: use.tool_name, status: use.error ?? use.status }));
      const memories = role === "assistant" ? memory_uses.map((use) => use.content) : [];
      return { id, role, text: content, status, tools, memories };
    }),
  );
}

/** The page: a bubble per message, with tools and memories below answers. */
export function Chat({ handle, ...props }) {
  const conversation = useConversation(props);
  const latest = useRef(conversation);
  latest.current = conversation;
  useEffect(() => void (handle.current = latest), [handle]);
  const { messages, phase, title } = conversation.state;
  return h("main", { phase, title }, messages.map(({ id, role, text, status, error, tools, memories }) =>
    h("article", { key: id, id, role, status },
      h("p", null, text),
      error && h("strong", null, error),
      tools.map((tool) => h("code", { key: tool.id }, `${tool.name}: ${tool.status}`)),
      memories.map((memory, index) => h("small", { key: index }, memory)))));
}
