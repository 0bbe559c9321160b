/** The clients that are no program of this repository: each on a library of others, and written from the reference. */

import { createRequire } from "node:module";
import { randomBytes, randomUUID } from "node:crypto";
import { openShop } from "../../tests/browser/support/shop.mjs";
import { Peer as AliciaPeer, T, fresh } from "../../tests/peers/node/alicia_wire.mjs";
import { ERROR, Peer as AspPeer, STANDARD, STREAM } from "../../tests/peers/node/asp_wire.mjs";
import { Witness, until } from "./witness.mjs";

const WebSocket = createRequire(new URL("../../tests/peers/node/", import.meta.url))("ws");

/** VIP: the demo page in a browser, whose microphone hears a spoken sentence once it is opened. */
export class Browser extends Witness {
  state = "not_connected";
  session = undefined;
  heard = undefined;
  /** The turn that it has asked for, once others know its name. */
  asked = undefined;
  /** What was said aloud because others had asked. */
  announced = [];
  seq = 0;

  static async open(server, screen, sentence) {
    const browser = new Browser("VIP", screen);
    browser.shop = await openShop(server, { says: [2, sentence, 120] });
    browser.shop.page.on("websocket", (socket) => {
      socket.on("framereceived", ({ payload }) => typeof payload === "string" && browser.receive(JSON.parse(payload)));
      socket.on("close", () => browser.cut());
    });
    await browser.shop.connect();
    await until(() => browser.session, "the session of the browser");
    return browser;
  }

  cut() {
    this.state = "not_connected";
    this.screen.disconnect(this.lane);
  }

  receive({ type, seq, data }) {
    // What comes again after the line was broken is known.
    if (seq <= this.seq) return;
    this.seq = seq;
    const { response_id: id } = data;
    if (type === "session.connected") {
      this.session = data.session_id;
      this.screen.connect(this.lane);
      this.screen.act(this.lane, data.resumed ? "the page is back by itself" : `a browser opens ${this.session}`);
    } else if (type === "state.changed") this.state = data.state;
    else if (type === "input.complete") {
      this.heard = data.text;
      this.screen.act(this.lane, `♪ “${data.text}”`);
    } else if (type === "response.audio") {
      this.answering = { id, name: data.in_reply_to };
      this.of(data.in_reply_to).turn = this.asked ?? data.in_reply_to;
      this.follow(data.in_reply_to);
      if (data.content) this.say(data.in_reply_to, data.content);
    } else if (type === "response.text.delta" && id === this.answering?.id) this.say(this.answering.name, data.text);
    else if (type === "server.announce") {
      this.announced.push({ id, words: data.content ?? "", ends: [] });
      this.screen.act(this.lane, `aloud: “${brief(data.content)}”`);
    } else if (type === "response.done") {
      this.announced.find((known) => known.id === id)?.ends.push(data.status);
      if (id === this.answering?.id) this.end(this.answering.name, data.status);
    }
  }

  /** Somebody speaks; done once it is understood. */
  async speak() {
    await this.shop.page.click("#microphone");
    await until(() => this.heard, "the browser understands what is said");
  }

  async muteMicrophone() {
    await this.shop.page.click("#microphone");
  }

  /** Somebody presses the button that silences the page. */
  async hush() {
    this.screen.act(this.lane, "enough: the page is silenced");
    await this.shop.page.click("#stop");
  }

  idle() {
    return until(() => this.state === "idle", "the browser is idle");
  }

  async close() {
    await this.shop?.close();
  }
}

/** AIP, as an orchestrator: gives one task to a device, in a session that is there already. */
export async function lend(server, screen, device, session) {
  const socket = await opened(`${server.url}/ws`);
  const base = { client_type: "constellation", client_id: `five-${randomUUID().slice(0, 8)}`, target_id: device };
  const send = (message) => socket.send(JSON.stringify({ status: "ok", timestamp: new Date().toISOString().replace("Z", "+00:00"), ...base, ...message }));
  const received = [];
  socket.on("message", (text) => received.push(JSON.parse(text)));
  const message = (matches, what) => until(() => received.find((known) => known.type === "error" || matches(known)), what);
  send({ type: "register", metadata: { type: "constellation_client", targeted_device_id: device } });
  await message(({ type, session_id: id }) => type === "heartbeat" && !id, "the orchestrator is registered");
  screen.act("AIP", `${device} is lent to the session`);
  send({ type: "task", status: "continue", session_id: session, task_name: "lend", request: `lend ${device}`, request_id: randomUUID() });
  await message(({ type }) => type === "task_end", "the task is over");
  // Whatever would come after the end comes before the answer to this.
  const beats = () => received.filter(({ type, session_id: id }) => type === "heartbeat" && !id).length;
  const before = beats();
  send({ type: "heartbeat" });
  await until(() => beats() > before, "a sign of life");
  socket.close();
  const refused = received.find(({ type }) => type === "error");
  if (refused) throw new Error(`the task was refused: ${refused.error}`);
  return received.filter(({ type }) => type === "task_end");
}

/** Acolyte: a terminal that follows what others have asked, and can stop it. */
export class Terminal extends Witness {
  static async open(server, screen) {
    const terminal = new Terminal("Acolyte", screen);
    await terminal.connect(server);
    return terminal;
  }

  async connect(server) {
    this.waiting = new Map();
    this.socket = await until(() => opened(`${server.url}/v1/rpc`).catch(() => undefined), "the terminal is connected");
    this.socket.on("message", (text) => this.receive(JSON.parse(text)));
    this.socket.on("close", () => this.screen.disconnect(this.lane));
    const { status } = await this.ask("status.get", { protocol_version: "1", capabilities: "task.resume" });
    if (status.capabilities_agreed !== "task.resume") throw new Error("the server does not let tasks be followed");
    this.screen.connect(this.lane);
  }

  send(type, payload) {
    const id = `rpc_${randomBytes(8).toString("hex")}`;
    this.socket.send(JSON.stringify({ id, type, payload }));
    return id;
  }

  ask(type, payload) {
    const id = this.send(type, payload);
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  /** Follows a turn of the session, from where it was left. */
  attach(session, turn) {
    const known = this.of(turn);
    // Words after the last position are told again.
    known.words = known.settled?.words ?? "";
    known.calls = known.settled?.calls ?? [];
    this.screen.follow(this.lane, turn);
    const after = known.settled?.position;
    this.chat = this.send("chat.attach", { sessionId: session, taskId: turn.replace(/^inv_/, "task_"), ...(after ? { after } : {}) });
    this.turn = turn;
  }

  receive(message) {
    const { id, type, event, position } = message;
    if (this.waiting.has(id)) return this.waiting.get(id)(message);
    if (id !== this.chat) return undefined;
    if (type === "error") throw new Error(`the terminal was refused: ${message.error}`);
    const known = this.of(this.turn);
    if (type === "chat.event") {
      if (event.type === "text-delta") this.say(this.turn, event.text);
      if (event.type === "tool-call") this.call(this.turn, event.toolName);
      if (position) known.settled = { position, words: known.words, calls: [...known.calls] };
    } else if (type === "chat.done" || type === "chat.error") this.end(this.turn, type === "chat.done" ? "done" : message.errorCode);
    return undefined;
  }

  async abort() {
    this.screen.act(this.lane, "stop: the terminal has heard enough");
    const { aborted } = await this.ask("chat.abort", { requestId: this.chat });
    if (!aborted) throw new Error("the turn could not be stopped");
  }

  close() {
    this.socket?.close();
  }
}

/** ASP: a program that asks, watches, and comes back to what it has asked. */
export class Program extends Witness {
  numbers = [];

  static async open(server, screen) {
    const program = new Program("ASP", screen);
    await program.connect(server);
    return program;
  }

  async connect(server, resume) {
    const url = `${server.url.replace("http", "ws")}/v1/agent-socket`;
    const nextId = this.peer?.nextId ?? 0;
    this.peer = await until(() => AspPeer.open(url, null).catch(() => undefined), "the program is connected");
    this.peer.nextId = nextId;
    await this.peer.hello({ features: [...STANDARD, "watch"], ...(resume ? { resume } : {}) });
    this.screen.connect(this.lane);
  }

  /** Watches what others have asked. */
  watch(session, turn) {
    const id = this.peer.invoke(null, { kind: "watch", session, turn });
    return this.pump(id, turn);
  }

  /** Asks something; the turn becomes known when it begins. */
  ask(session, text) {
    this.screen.act(this.lane, `“${text}”`);
    this.asked = { id: this.peer.invoke(text, { session }), turn: undefined, next: 0 };
    void this.pump(this.asked.id, undefined);
  }

  async pump(id, turn) {
    const { peer } = this;
    if (turn) this.follow(turn);
    for (;;) {
      const frame = await peer.next((known) => known.id === id && [STREAM, ERROR].includes(known.opcode), 600_000).catch(() => undefined);
      if (!frame) return this.screen.disconnect(this.lane);
      const record = frame.value ?? {};
      if (id === this.asked?.id) {
        if (record.t === "start") this.follow((turn = this.asked.turn = record.run));
        if (record.n !== undefined) {
          this.numbers.push(record.n);
          this.asked.next = record.n + 1;
        }
      }
      if (record.t === "text") this.say(turn, record.d);
      if (record.t === "tool" && record.args !== undefined) this.call(turn, record.name);
      if (record.t === "ask") this.call(turn, "question");
      if (frame.terminal) return this.end(turn, frame.opcode === ERROR ? `error ${record.code}` : record.finish);
    }
  }

  /** Takes up what it has asked, on the server as it is now. */
  async resume(server) {
    const { cid, resume } = this.peer.accept;
    const { id, turn, next } = this.asked;
    await this.connect(server, { cid, token: resume.token, next: { [id]: next } });
    if (!this.peer.accept.resumed) throw new Error("the program could not resume");
    void this.pump(id, turn);
  }

  close() {
    this.peer?.close();
  }
}

/** Alicia: a phone that comes late, is told what it has missed, and takes part. */
export class Phone extends Witness {
  /** What the agent wants to know. */
  question = undefined;

  static async open(server, screen, session) {
    const phone = new Phone("Alicia", screen);
    phone.session = session;
    const world = { url: `${server.url.replace("http", "ws")}/api/v1/ws` };
    phone.peer = await until(() => AliciaPeer.open(world, null).catch(() => undefined), "the phone is connected");
    screen.connect(phone.lane);
    // Its numbers begin at -1; whoever has seen that one has missed everything else.
    const { replay } = await phone.peer.handshake(session, 1);
    for (const envelope of replay) phone.receive(envelope);
    screen.act(phone.lane, `a phone joins, and is told all that it missed`);
    void phone.pump();
    return phone;
  }

  async pump() {
    for (;;) {
      const envelope = await this.peer.next((known) => known.conv === this.session, 600_000).catch((error) => void (this.failed = error));
      if (!envelope) return;
      this.receive(envelope);
    }
  }

  receive({ type, body, final }) {
    if (type === T.START) {
      if (body.previousId === this.asked) this.answer = nameOf(body.id);
      this.follow(nameOf(body.id));
    } else if (type === T.SENTENCE) {
      const name = nameOf(body.previousId);
      // A sentence comes without the space behind it.
      this.say(name, `${body.text} `);
      if (final) this.end(name, "final");
    } else if (type === T.REQUEST) {
      this.call(nameOf(body.messageId), body.toolName);
      if (body.execution === "client") this.question = body;
    }
  }

  /** Answers what the agent wanted to know. */
  reply(text) {
    const { id, conversationId } = this.question;
    this.screen.act(this.lane, `“${text}”, says the phone`);
    this.peer.send(T.RESULT, this.session, { id: `${id}_result`, requestId: id, conversationId, success: true, result: text });
  }

  ask(text) {
    this.screen.act(this.lane, `“${text}”`);
    this.asked = fresh();
    this.peer.say(this.session, text, { id: this.asked });
  }

  /** The turn that it has asked for has a name by now. */
  async asks(turn) {
    await until(() => this.answer, "the phone is answered");
    Object.assign(this.of(this.answer), { turn });
    this.screen.follow(this.lane, turn);
  }

  close() {
    this.peer?.socket.close();
  }
}

/** An answer to what another protocol has asked is named after its turn. */
const nameOf = (answer) => answer.replace(/\.out$/, "");

const brief = (text) => (text.length > 40 ? `${text.slice(0, 38).replace(/\s\S*$/, "")} …` : text);

function opened(url) {
  const socket = new WebSocket(url.replace("http", "ws"), { perMessageDeflate: false });
  return new Promise((resolve, reject) => {
    socket.once("open", () => resolve(socket));
    socket.on("error", reject);
  });
}
