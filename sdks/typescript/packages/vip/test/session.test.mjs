import assert from "node:assert/strict";
import { after, test } from "node:test";
import { backoff, Session } from "../dist/session.js";
import { FakeSocket, FakeStorage, until } from "./support.mjs";

const grant = (number, changes = {}) => ({
  session_id: `vs_${String(number).padStart(26, "0")}`, protocol_version: "0.1", environment: "development", mode: "external", state: "connecting",
  session_token: `token.${number}`, session_token_expires_at: Date.now() / 1000 + 600, expires_at: Date.now() / 1000 + 3600, resume: { window_s: 60 },
  audio: { input: "pcm16/16000", output: "pcm16/24000", frame_ms: 20, framing: "binary" },
  turn_detection: { type: "client_vad", silence_ms: 700, no_speech_ms: 8000, interrupt_response: true, follow_up_listen: true },
  transport: { websocket: { url: "ws://vip.example/stream", subprotocol: "vip.v1" } }, limits: {}, issued_in_development: true, ...changes,
});

const open = [];
after(() => Promise.all(open.map((session) => session.hangUp())));

/** A session, the requests that it makes, and the server's side of its sockets. */
function stage(storage = new FakeStorage(), answers = {}) {
  FakeSocket.made = [];
  const requests = [];
  const session = new Session({
    appId: "shop", environment: "development", endpoint: "http://vip.example", locale: "en-US", storage,
    socketFactory: (url, protocols) => new FakeSocket(url, protocols),
    fetch: async (url, init) => {
      requests.push({ method: init.method, path: url.pathname, body: init.body && JSON.parse(init.body), headers: init.headers });
      const status = answers[`${init.method} ${url.pathname}`] ?? (init.method === "POST" ? 201 : 200);
      const body = status === 201 ? grant(requests.length) : { error: { code: "X", message: "no" } };
      return new Response(status === 204 ? null : JSON.stringify(body), { status });
    },
  });
  open.push(session);
  let version = 0;
  session.context = { full: () => ({ mode: "full", context_version: ++version, narration: "Home." }), resync: (have) => (version = Math.max(version, have)) };
  const socket = () => FakeSocket.made.at(-1);
  let seq = 0;
  const say = (type, data = {}, extra = {}) => socket().say({ type, id: `s-${++seq}`, seq, ts: 1, state_seq: 0, ...extra, data });
  const welcome = (changes = {}) => {
    socket().open();
    say("session.connected", { session_id: "x", mode: "external", environment: "development", resumed: false, resume_token: "secret-1", resume_window_s: 60, context_version: 0, ...changes });
    say("server.ready", { context_version: version });
    say("state.changed", { state: "idle", previous: "connecting", trigger: "server.ready", state_seq: 1 });
  };
  return { session, requests, socket, say, welcome, storage };
}

test("vip_020_the_whole_screen_is_sent_before_anything_is_said", async () => {
  const { session, requests, socket, welcome } = stage();
  const started = session.start();
  await until(() => socket());
  assert.deepEqual(socket().protocols, ["vip.v1", "vip.bearer.token.1"]);
  assert.equal(requests[0].body.app_id, "shop");
  assert.ok(requests[0].headers["idempotency-key"]);
  welcome();
  await started;
  assert.deepEqual(socket().types(), ["client.connect", "state.update"]);
  assert.equal(socket().sent[1].data.mode, "full");
  assert.deepEqual(socket().sent.map((event) => [event.id, event.seq]), [["c-1", 1], ["c-2", 2]]);
  assert.equal(session.machine.state, "idle");
  await session.hangUp();
});

test("vip_024_an_error_about_a_transition_names_the_state_that_counts", async () => {
  const { session, socket, say, welcome } = stage();
  const started = session.start();
  await until(() => socket());
  welcome();
  await started;
  say("error.recoverable", { code: "PROTO_INVALID_TRANSITION", category: "protocol", message: "no", fatal: false, retryable: false, details: { state: "ai_thinking", state_seq: 13 } });
  assert.deepEqual([session.machine.state, session.machine.seq], ["ai_thinking", 13]);
  session.send("session.ping", { nonce: "n" });
  assert.equal(socket().sent.at(-1).state_seq, 13);
});

test("a lost transport is replaced, with what was seen and what was finished meanwhile", async () => {
  const { session, socket, say, welcome } = stage();
  const started = session.start();
  await until(() => socket());
  welcome();
  await started;
  const first = socket();
  const tries = [];
  session.on("reconnecting", (news) => tries.push(news));
  first.readyState = 2;
  session.sendResult({ invocation_id: "inv-0" });
  first.drop(1006);
  assert.equal(session.machine.state, "not_connected");
  session.sendResult({ invocation_id: "inv-1" });
  await until(() => socket() !== first);
  assert.equal(tries[0].delayMs >= 125 && tries[0].delayMs <= 375, true);
  socket().open();
  assert.deepEqual(socket().sent[0].data.resume, { resume_token: "secret-1", last_server_seq: 3, pending_results: [{ invocation_id: "inv-0" }, { invocation_id: "inv-1" }] });
  assert.equal(socket().sent[0].seq, 4, "numbers go on");
  const seen = [];
  session.on("event", (event) => seen.push(event.type));
  say("session.connected", { resumed: true, resume_token: "secret-2", resume_window_s: 60, context_version: 1 });
  socket().say({ type: "response.done", id: "old", seq: 2, data: { response_id: "r", status: "complete" } });
  say("state.changed", { state: "ai_speaking", previous: "ai_thinking", trigger: "response.audio", state_seq: 9 });
  assert.equal(session.machine.state, "connecting", "a replayed state is history");
  say("server.ready", { context_version: 2 });
  say("state.changed", { state: "idle", previous: "connecting", trigger: "server.ready", state_seq: 1 });
  assert.equal(session.machine.state, "idle");
  assert.deepEqual(seen, ["session.connected", "state.changed", "server.ready", "state.changed"]);
  assert.equal(socket().sent[1].data.context_version, 2);
});

test("a page that is loaded again goes on with its session", async () => {
  const before = stage();
  const started = before.session.start();
  await until(() => before.socket());
  before.welcome();
  await started;
  const later = stage(before.storage);
  later.session.start().catch(() => undefined);
  await until(() => later.socket());
  later.socket().open();
  assert.deepEqual(later.requests, []);
  assert.equal(later.socket().sent[0].data.resume.resume_token, "secret-1");
  assert.equal(later.socket().sent[0].seq, 3);
});

test("a session that cannot be resumed is followed by a new one", async () => {
  for (const [code, answers] of [[4410, {}], [4404, {}]]) {
    const { session, requests, socket, welcome } = stage(new FakeStorage(), answers);
    const started = session.start();
    await until(() => socket());
    welcome();
    await started;
    const first = socket();
    first.drop(code);
    await until(() => requests.length === 2, `a new session after ${code}`);
    await until(() => socket() !== first);
    socket().open();
    assert.equal(socket().sent[0].data.resume, undefined);
    assert.equal(socket().sent[0].seq, 1);
  }
});

test("some endings are final", async () => {
  for (const code of [1000, 4401, 4409, 4440, 4502]) {
    const { session, socket, welcome, storage } = stage();
    const ended = new Promise((resolve) => session.on("ended", resolve));
    const started = session.start();
    await until(() => socket());
    welcome();
    await started;
    socket().drop(code, "over");
    assert.equal((await ended).code, code);
    assert.equal(storage.values.size, 0);
    assert.equal(FakeSocket.made.length, 1);
  }
});

test("hanging up says so and forgets the session", async () => {
  const { session, socket, say, welcome, storage } = stage();
  const started = session.start();
  await until(() => socket());
  welcome();
  await started;
  const ended = new Promise((resolve) => session.on("ended", resolve));
  await session.hangUp();
  assert.deepEqual(socket().sent.at(-1).data, { reason: "user_hangup" });
  say("session.terminated", { reason: "user_hangup", duration_ms: 5 });
  assert.equal((await ended).reason, "user_hangup");
  assert.equal(storage.values.size, 0);
});

test("a refused session is an error, not a loop", async () => {
  const { session, requests } = stage(new FakeStorage(), { "POST /v1/vip/sessions": 403 });
  await assert.rejects(session.start(), /no/);
  assert.equal(requests.length, 1);
});

test("attempts are further and further apart, up to five seconds, and never in step", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6].map((attempt) => backoff(attempt, 0.5)), [250, 500, 1000, 2000, 4000, 5000, 5000]);
  assert.deepEqual([backoff(0, 0), backoff(0, 1), backoff(9, 1)], [125, 375, 7500]);
});

test("frames that do not fit are left out, and the gap is marked", async () => {
  const { session, socket, welcome } = stage();
  const started = session.start();
  await until(() => socket());
  welcome();
  await started;
  const frame = (seq) => ({ kind: 1, flags: 0, stream: 1, seq, offsetMs: seq * 20, payload: new Uint8Array(640) });
  session.sendFrame(frame(0));
  socket().bufferedAmount = 1 << 20;
  session.sendFrame(frame(1));
  socket().bufferedAmount = 0;
  session.sendFrame(frame(2));
  session.sendFrame(frame(3));
  assert.deepEqual(socket().frames.map((bytes) => [bytes[1], bytes[7]]), [[0, 0], [4, 2], [0, 3]]);
});
