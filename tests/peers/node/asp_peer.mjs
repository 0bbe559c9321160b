// Checks a running server from outside: `asp_peer.mjs URL [--strict URL]`, or `asp_peer.mjs URL --drain`.
//
// The server and the environment are those of `tests/peers/python/asp_peer.py`, and so are the checks; what differs is
// the library beneath: npm `ws`.

import { createHash, randomBytes, randomInt } from "node:crypto";
import { deflateRawSync } from "node:zlib";

import {
  COMPRESSED, END, ENC_JSON, ENC_MSGPACK, ENC_RAW, ERROR, Failed, HELLO, INTERRUPT, INVOKE, MORE, PATIENCE, Peer, REPLAY,
  STANDARD, STREAM, TOOL_DEF, bearerEntry, ensure, equal, frame, header, http, jwt, kindsOf, numbersOf, pack, range, sleep,
  textOf,
} from "./asp_wire.mjs";

const env = (name) => process.env[name] ?? "";
const name = () => randomBytes(8).toString("hex");
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const counted = (count) => range(count).map((number) => `${number + 1} `).join("");

/** Where the server is, and who may talk to it. */
class World {
  constructor(url) {
    this.url = url;
    const { hostname, port, host, pathname } = new URL(url);
    Object.assign(this, { hostname, port: Number(port), host, path: pathname });
    [this.ann, this.bob, this.narrow] = ["ANN", "BOB", "NARROW"].map((who) => env(`PEER_KEY_${who}`));
  }

  token({ lifetime = 3600, secret = env("PEER_JWT_SECRET"), head = {}, ...claims } = {}) {
    const exp = Math.floor(Date.now() / 1000 + lifetime);
    const standard = { iss: env("PEER_JWT_ISSUER"), aud: env("PEER_JWT_AUDIENCE"), sub: "carol", exp };
    return jwt(secret, { ...standard, ...claims }, head);
  }

  bare(query = "") {
    return Peer.open(this.url, this.ann, { query });
  }

  async standard({ token = this.ann, ...members } = {}) {
    const peer = await Peer.open(this.url, token);
    await peer.hello(members);
    return peer;
  }

  async resumed(old, next, { token = this.ann, secret = old.accept.resume.token, ...members } = {}) {
    const peer = await Peer.open(this.url, token);
    peer.nextId = old.nextId;
    await peer.hello({ resume: { cid: old.accept.cid, token: secret, next }, ...members });
    return peer;
  }

  /** An upgrade by hand; a change of a header to null takes it away. */
  upgrade({ query = "", path = this.path, ...changes } = {}) {
    const headers = {
      Host: this.host, Upgrade: "websocket", Connection: "Upgrade", "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "asp-v1",
      Authorization: `Bearer ${this.ann}`, ...changes,
    };
    const fields = Object.entries(headers).filter(([, value]) => value !== null);
    return http(this.hostname, this.port, path + query, fields);
  }

  async refused(status, code, request) {
    const answer = await this.upgrade(request);
    equal(answer.status, status, "status");
    answer.error = JSON.parse(answer.body).error;
    equal(answer.error.code, code, "code");
    ensure(answer.error.name && answer.error.msg && "retry" in answer.error, answer.error);
    if (status === 401) equal(answer.headers["www-authenticate"], "Bearer", "WWW-Authenticate");
    return answer;
  }
}

function textBare(frames) {
  ensure(frames.every((f) => f.opcode === STREAM), "failed:", frames.at(-1));
  equal(frames.at(-1).payload.length, 0, "the terminal frame");
  return frames.map((f) => f.value).join("");
}

const ADDER = { name: "add", description: "Adds.", input_schema: { type: "object" } };

/** Run beside each other, against the server with raised limits. */
const CHECKS = {
  // --- the upgrade (section 2) ---

  async asp_004_selects_asp_v1(world) {
    const peer = await Peer.open(world.url, world.ann, { protocols: ["chat", "asp-v1", "asp-v2"] });
    equal(peer.socket.protocol, "asp-v1", "subprotocol");
    peer.close();
  },

  async asp_004_refuses_without_subprotocol(world) {
    await world.refused(400, 2000, { "Sec-WebSocket-Protocol": null });
    await world.refused(400, 2000, { "Sec-WebSocket-Protocol": "asp-v2, chat" });
  },

  async asp_005_serves_the_path_and_no_other(world) {
    equal((await world.upgrade()).status, 101, "status");
    equal((await world.upgrade({ path: "/v1/agent-socket/more" })).status, 404, "status");
  },

  async asp_006_needs_a_credential(world) {
    await world.refused(401, 2100, { Authorization: null });
  },

  async asp_006_refuses_wrong_tokens(world) {
    equal((await world.upgrade({ Authorization: `Bearer ${world.token()}` })).status, 101, "a good token");
    const wrong = [
      "nonsense", `${world.ann}x`, world.token({ aud: "https://other.test" }), world.token({ iss: "https://other.test" }),
      world.token({ secret: "another-secret-that-is-quite-long-enough" }), world.token({ head: { alg: "none" } }),
      world.token({ head: { alg: "HS512" } }), world.token({ exp: undefined }), world.token({ sub: undefined }),
      world.token().slice(0, -4), world.token({ nbf: Math.floor(Date.now() / 1000) + 1000 }),
    ];
    for (const token of wrong) await world.refused(401, 2101, { Authorization: `Bearer ${token}` });
    await world.refused(401, 2102, { Authorization: `Bearer ${world.token({ lifetime: -100 })}` });
  },

  async asp_007_bearer_in_the_header_and_among_subprotocols(world) {
    const one = await Peer.open(world.url, world.ann);
    equal(textBare(await one.turnBare("echo one")), "one", "answer");
    const two = await Peer.open(world.url, null, { protocols: ["asp-v1", bearerEntry(world.ann)] });
    equal(two.socket.protocol, "asp-v1", "subprotocol");
    equal(textBare(await two.turnBare("echo two")), "two", "answer");
    for (const peer of [one, two]) peer.close();
    const entries = `${bearerEntry(world.ann)}, asp-v1`;
    const answer = await world.upgrade({ Authorization: null, "Sec-WebSocket-Protocol": entries });
    equal(answer.headers["sec-websocket-protocol"], "asp-v1", "what is selected");
    ensure(!JSON.stringify(answer).includes("asp-bearer"), "the credential was echoed", answer);
  },

  async asp_007_two_credentials_must_agree(world) {
    const both = (...tokens) => ({ "Sec-WebSocket-Protocol": ["asp-v1", ...tokens.map(bearerEntry)].join(", ") });
    equal((await world.upgrade(both(world.ann))).status, 101, "the same twice");
    await world.refused(401, 2101, both(world.bob));
    await world.refused(401, 2101, { Authorization: null, ...both(world.ann, world.ann) });
  },

  async asp_008_tokens_in_the_query_are_refused(world) {
    for (const key of ["token", "access_token", "api_key"]) {
      await world.refused(401, 2101, { query: `?${key}=${world.ann}`, Authorization: null });
      await world.refused(401, 2101, { query: `?${key}=${world.ann}` });
    }
  },

  async upgrade_refusals(world) {
    await world.refused(404, 2304, { query: "?agent=nobody" });
    await world.refused(400, 2000, { query: "?agent=no%20name" });
    await world.refused(403, 2103, { query: "?agent=conformance", Authorization: `Bearer ${world.narrow}` });
    await world.refused(403, 2103, { Origin: "https://evil.test" });
    await world.refused(403, 2103, { Host: "evil.test" });
    equal((await world.upgrade({ Origin: `http://${world.host}` })).status, 101, "our own origin");
    await world.refused(426, 2000, { Upgrade: null, Connection: null });
    await world.refused(400, 2000, { "Sec-WebSocket-Key": null });
  },

  // --- profiles (section 5) ---

  async asp_019_bare_turn(world) {
    const peer = await world.bare();
    const frames = await peer.turnBare("words one two three");
    equal(textBare(frames), "one two three", "answer");
    ensure(frames.length === 4 && frames.every((f) => f.flags === 0), frames);
    peer.send(frame(INVOKE, 8, pack({ kind: "chat", input: "echo packed" })));
    equal(textBare(await peer.finish(8)), "packed", "a packed map");
    peer.close();
  },

  async asp_018_reserved_is_ignored_until_agreed(world) {
    const peer = await world.bare();
    peer.send(frame(INVOKE, 1, "echo hi", 0xff));
    equal(textBare(await peer.finish(1)), "hi", "answer");
    peer.close();
  },

  async asp_030_bare_requests_end_with_an_empty_stream(world) {
    const peer = await world.bare();
    equal(textBare(await peer.turnBare("nothing")), "", "no output");
    const frames = await peer.turnBare("fail execution after 2");
    equal(frames.map((f) => f.opcode), [STREAM, STREAM, ERROR], "opcodes");
    peer.close();
  },

  async asp_035_code_points_are_never_split(world) {
    const peer = await world.bare();
    const text = "€🌍é".repeat(20_000);
    equal(sha256(textBare(await peer.turnBare(`echo ${text}`))), sha256(text), "answer");
    peer.close();
  },

  async asp_033_complete06_by_query(world) {
    const peer = await world.bare("?end=complete06");
    const frames = await peer.turnBare("words a b");
    equal(frames.map((f) => f.opcode), [STREAM, STREAM, ERROR], "opcodes");
    equal([frames[2].value.code, frames[2].value.finish], [0, "complete"], "completion");
    peer.close();
  },

  async asp_056_a_lost_bare_connection_cancels(world) {
    const [peer, session] = [await world.bare(), name()];
    peer.send(frame(INVOKE, 1, JSON.stringify({ input: "hang after 1", session })));
    await peer.next((f) => f.id === 1);
    await peer.cut();
    const other = await world.standard();
    equal(textOf(await other.turn("echo next", { session })), "next", "the session is free again");
    other.close();
  },

  async asp_020_one_accept_with_a_cid(world) {
    const peer = await world.standard();
    ensure(/^[A-Za-z0-9_-]{16,64}$/.test(peer.accept.cid), peer.accept);
    peer.sayHello({ features: STANDARD });
    await peer.error(0, 2012);
    await peer.quiet(100);
    peer.close();
  },

  async asp_021_only_what_was_offered(world) {
    for (const features of [[], ["events"], ["flags", "events", "nonsense"], ["frag", "resume"], STANDARD]) {
      const peer = await world.standard({ features });
      ensure(peer.features.every((feature) => features.includes(feature)), peer.features);
      peer.close();
    }
  },

  async asp_023_an_empty_hello_means_no_features(world) {
    const peer = await world.bare();
    peer.send(frame(HELLO, 0));
    equal((await peer.next((f) => f.opcode === HELLO)).value.features, [], "features");
    equal(textBare(await peer.turnBare("echo x")), "x", "bare output");
    peer.close();
  },

  async asp_031_standard_turn(world) {
    for (const [enc, flag] of [["json", ENC_JSON], ["msgpack", ENC_MSGPACK]]) {
      const peer = await world.standard({ enc });
      const frames = await peer.turn("everything", { want: ["text", "reason", "tool", "data", "usage"] });
      ensure(frames.every((f) => (f.flags & 0x0c) === flag), "ENC");
      equal(frames.filter((f) => f.flags & END).length, 1, "END");
      equal([kindsOf(frames)[0], kindsOf(frames).at(-1)], ["start", "end"], "first and last record");
      for (const kind of ["status", "reason", "text", "tool", "data", "usage"]) {
        ensure(kindsOf(frames).includes(kind), `no ${kind}`);
      }
      equal(numbersOf(frames), range(frames.length), "n of every record (ASP-081)");
      equal(textOf(frames), "Hello, wörld 🌍. 1,2,3,", "answer");
      equal([frames.at(-1).value.finish, frames.at(-1).value.output], ["complete", { input: "everything" }], "end");
      peer.close();
    }
  },

  async push_notice(world) {
    const peer = await world.standard();
    const id = peer.invoke("warn mind the gap");
    const { value } = await peer.next((f) => f.id === 0 && f.opcode === STREAM);
    equal([value.t, value.level, value.text], ["notice", "warn", "mind the gap"], "notice");
    await peer.finish(id);
    peer.close();
  },

  async ping_of_websocket_and_of_hello(world) {
    const peer = await world.standard();
    const pong = new Promise((resolve) => peer.socket.once("pong", resolve));
    peer.socket.ping("are you there");
    const data = await Promise.race([pong, sleep(PATIENCE)]);
    equal(String(data), "are you there", "pong");
    peer.sayHello({ op: "ping", nonce: "abc" });
    const answer = await peer.next((f) => f.opcode === HELLO);
    equal([answer.value.op, answer.value.nonce], ["pong", "abc"], "pong");
    peer.close();
  },

  async bye_cancels_and_closes(world) {
    const [peer, session] = [await world.standard(), name()];
    const id = peer.invoke("hang after 1", { session });
    await peer.record(id, "text");
    peer.sayHello({ op: "bye" });
    await peer.closed(1000);
    const again = await world.resumed(peer, { [id]: 0 });
    equal(again.rejected?.value.code, 2600, "no resume after bye");
    equal(textOf(await again.turn("echo next", { session })), "next", "the session is free again");
    again.close();
  },

  // --- frames (sections 2.3, 3, 4) ---

  async asp_010_several_frames_in_one_message(world) {
    const peer = await world.standard();
    peer.send(Buffer.concat([1, 2, 3].map((id) => peer.invocation(id, { input: `echo ${id}` }))));
    for (const id of [1, 2, 3]) equal(textOf(await peer.finish(id)), String(id), "answer");
    peer.close();
  },

  async websocket_fragmentation_is_transparent(world) {
    const peer = await world.bare();
    const whole = frame(INVOKE, 1, "echo in pieces");
    peer.socket.send(whole.subarray(0, 3), { fin: false });
    peer.socket.send(whole.subarray(3, 11), { fin: false });
    peer.socket.send(whole.subarray(11), { fin: true });
    equal(textBare(await peer.finish(1)), "in pieces", "answer");
    peer.close();
  },

  async asp_009_text_message(world) {
    for (const peer of [await world.bare(), await world.standard()]) {
      peer.socket.send("hello");
      await peer.closed(1003);
      equal(peer.errors(), [2010], "errors");
    }
  },

  async asp_003_wrong_version(world) {
    const peer = await world.bare();
    peer.send(frame(INVOKE, 1, "", 0, 2));
    await peer.closed(4406);
    equal(peer.errors(), [2001], "errors");
    const other = await world.bare();
    other.sayHello({ ver: [2] });
    await other.closed(4406);
  },

  async asp_011_trailing_partial_frame(world) {
    for (const tail of [Buffer.from([0x12]), Buffer.concat([header(0x13, 0, 1, 4), Buffer.from("AB")])]) {
      const peer = await world.standard();
      peer.send(Buffer.concat([peer.invocation(1, { kind: "list" }), tail]));
      await peer.closed(4400);
      equal(kindsOf(peer.inbox.filter((f) => f.id === 1)), ["end"], "the whole frame before it");
      equal(peer.errors(), [2004], "errors");
    }
  },

  async asp_013_beyond_the_hard_cap(world) {
    for (const length of [0xffffffff, (16 << 20) + 1]) {
      const peer = await world.bare();
      peer.send(header(0x12, 0, 1, length));
      await peer.closed(1009);
      equal(peer.errors(), [2202], "errors");
    }
    const peer = await world.standard();
    peer.send(frame(INVOKE, 1, Buffer.alloc(peer.accept.limits.max_message, "x")));
    await peer.closed(1009);
  },

  async asp_014_above_max_payload_but_within_the_cap(world) {
    const peer = await world.standard();
    peer.send(frame(INVOKE, 1, Buffer.alloc(peer.accept.limits.max_payload + 1, "x"), ENC_RAW));
    await peer.error(1, 2202);
    equal(textOf(await peer.turn("echo still here", { id: 1 })), "still here", "answer");
    peer.close();
  },

  async asp_015_unknown_opcodes_are_skipped(world) {
    const peer = await world.standard();
    peer.send(Buffer.concat([frame(0xf, 3, "xy"), peer.invocation(1, { input: "echo on" })]));
    equal((await peer.error(0, 2002)).ref, 3, "ref");
    equal(textOf(await peer.finish(1)), "on", "answer");
    peer.close();
  },

  async asp_016_wrong_direction(world) {
    const peer = await world.standard();
    for (const [opcode, id] of [[STREAM, 3], [TOOL_DEF, 0]]) {
      peer.send(frame(opcode, id, "{}"));
      equal((await peer.error(0, 2003)).ref ?? 0, id, "ref");
    }
    for (const _ of range(8)) peer.send(frame(STREAM, 1, "x"));
    await peer.closed(4400);
  },

  async asp_025_duplicate_id(world) {
    const peer = await world.standard();
    peer.invoke("count 30 every 10", { id: 5 });
    await peer.record(5, "text");
    peer.socket.send(peer.invocation(5, { input: "echo other" }));
    equal((await peer.error(0, 2008)).ref, 5, "ref");
    ensure(textOf(await peer.finish(5)).endsWith("29 30 "), "the running request goes on");
    equal(textOf(await peer.turn("echo reused", { id: 5 })), "reused", "the id is free at once");
    peer.close();
  },

  async asp_026_invoke_on_id_0(world) {
    const peer = await world.standard();
    peer.send(peer.invocation(0, { input: "echo x" }));
    await peer.error(0, 2007);
    peer.close();
  },

  async asp_027_up_to_max_inflight(world) {
    const peer = await world.bare();
    for (const id of range(17)) peer.send(frame(INVOKE, id + 1, "hang after 1"));
    await peer.error(17, 2201);
    peer.interrupt(0);
    for (const id of range(16)) equal((await peer.finish(id + 1)).at(-1).payload.length, 0, "terminal frame");
    peer.close();
  },

  // --- fragments and compression (section 3.3) ---

  async asp_057_client_fragments(world) {
    const peer = await world.standard();
    const text = `measure ${"é".repeat(100_000)}`;
    const payload = Buffer.from(JSON.stringify({ input: text }));
    for (let at = 0; at < payload.length; at += 7_000) {
      const more = at + 7_000 < payload.length ? MORE : 0;
      peer.send(frame(INVOKE, 1, payload.subarray(at, at + 7_000), ENC_JSON | more));
      if (at === 21_000) equal(textOf(await peer.turn("echo between", { id: 2 })), "between", "answer");
    }
    const expected = `${text.length} ${Buffer.byteLength(text)} ${sha256(text)}`;
    equal(textOf(await peer.finish(1)), expected, "what arrived");
    peer.close();
  },

  async asp_057_server_fragments(world) {
    const peer = await world.standard();
    const value = { text: "x".repeat(200_000) };
    const frames = await peer.turn(`data ${JSON.stringify(value)}`, { want: ["data", "text"] });
    const data = frames.find((f) => f.member("t") === "data");
    equal(data.value.value.text.length, 200_000, "data");
    ensure(data.fragments > 1, "expected fragments");
    peer.close();
  },

  async asp_057_broken_fragments(world) {
    const peer = await world.standard();
    peer.send(frame(INVOKE, 1, '{"input":', ENC_JSON | MORE));
    peer.send(frame(INVOKE, 1, '"x"}', ENC_MSGPACK));
    await peer.error(1, 2011);
    peer.send(frame(INVOKE, 2, '{"input":', ENC_JSON | MORE));
    peer.send(frame(INTERRUPT, 2));
    equal((await peer.finish(2)).at(-1).value.finish, "interrupted", "finish");
    peer.close();
  },

  async asp_058_deflate(world) {
    const peer = await world.standard({ features: [...STANDARD, "deflate"] });
    const text = `measure ${"abcdefgh".repeat(10_000)}`;
    const pad = randomBytes(1_000).toString("hex");
    peer.send(frame(INVOKE, 1, deflateRawSync(JSON.stringify({ input: text, pad })), ENC_JSON | COMPRESSED));
    equal(textOf(await peer.finish(1)), `${text.length} ${text.length} ${sha256(text)}`, "what arrived");
    // Packs well, but not beyond the 100 to 1 that a receiver would have to refuse.
    const words = Array.from({ length: 6_000 }, (_, number) => number).join(" ");
    const frames = await peer.turn(`echo ${words}`, { id: 2 });
    equal(textOf(frames), words, "text");
    ensure(frames.some((f) => f.flags & COMPRESSED), "nothing was compressed");
    const bomb = deflateRawSync(Buffer.concat([Buffer.from('{"input":"'), Buffer.alloc(20_000_000, "a"), Buffer.from('"}')]));
    peer.send(frame(INVOKE, 3, bomb, ENC_JSON | COMPRESSED));
    await peer.error(3, 2202);
    peer.close();
  },

  // --- interrupts and flow (sections 9, 12.1) ---

  async asp_036_interrupt(world) {
    // 100 ms, and what a busy machine adds; one that is busier than that is asked again.
    let [ended, late] = [0, []];
    for (const _ of range(3)) {
      const peer = await world.standard();
      const id = peer.invoke("count 100000 every 2");
      for (const _ of range(20)) await peer.record(id, "text");
      peer.interrupt(id, { mode: "cancel", reason: "user" });
      const sent = performance.now();
      const frames = await peer.finish(id);
      equal(frames.at(-1).value.finish, "interrupted", "finish");
      await peer.quiet(200);
      peer.close();
      ended = frames.at(-1).at - sent;
      late = frames.slice(0, -1).map((f) => f.at - sent).filter((after) => after > 250);
      if (ended < 1_000 && late.length === 0) return;
    }
    ensure(false, `terminal frame after ${ended} ms, output after the interrupt:`, late.slice(0, 3));
  },

  async asp_038_interrupt_all(world) {
    const peer = await world.standard();
    const ids = range(5).map(() => peer.invoke("hang after 1"));
    for (const id of ids) await peer.record(id, "text");
    peer.interrupt(0);
    for (const id of ids) equal((await peer.finish(id)).at(-1).value.finish, "interrupted", "finish");
    peer.close();
  },

  async asp_039_late_interrupts_are_ignored(world) {
    const peer = await world.standard();
    const id = peer.invoke("echo x");
    await peer.finish(id);
    peer.interrupt(id);
    peer.interrupt(40_000);
    equal((await peer.error(0, 2009)).ref, 40_000, "only the id that was never used is unknown");
    peer.close();
  },

  async asp_048_credit(world) {
    const window = 8_192;
    const peer = await world.standard({ limits: { window } });
    const id = peer.invoke("deltas 100 of 512");
    const bytes = () => peer.inbox.filter((f) => f.id === id).reduce((sum, f) => sum + f.payload.length, 0);
    await peer.until(() => bytes() >= window || undefined, PATIENCE, () => undefined);
    await peer.quiet(500, (f) => f.id === id || f.opcode === TOOL_DEF);
    const used = bytes();
    ensure(used >= window && used < window + 1_024, `${used} bytes in a window of ${window}`);
    peer.interrupt(id, { mode: "credit", bytes: 1 << 20 });
    const frames = await peer.finish(id);
    equal(textOf(frames).length, 51_200, "all of it arrives in the end");
    equal(numbersOf(frames), range(frames.length), "numbers");
    peer.close();
  },

  async asp_036_interrupt_of_output_that_is_held_back(world) {
    const peer = await world.standard({ limits: { window: 1_024 } });
    const id = peer.invoke("deltas 16 of 600");
    await sleep(500);
    peer.interrupt(id);
    const end = (await peer.finish(id, 1_500)).at(-1);
    ensure(["interrupted", "complete"].includes(end.value.finish), end);
    peer.close();
  },

  async pause_and_resume(world) {
    const peer = await world.standard();
    const id = peer.invoke("count 400 every 10");
    await peer.record(id, "text");
    peer.interrupt(id, { mode: "pause" });
    // What was under way still comes, and on a busy machine late.
    for (let came = -1; came !== peer.inbox.length; await sleep(500)) came = peer.inbox.length;
    ensure(!textOf(peer.inbox.filter((f) => f.id === id)).includes("400 "), "it is not paused");
    peer.inbox = [];
    await peer.quiet(400);
    peer.interrupt(id, { mode: "resume" });
    ensure(textOf(await peer.finish(id)).endsWith("399 400 "), "the rest");
    peer.close();
  },

  // --- tools, calls, questions (sections 7, 8, 10) ---

  async asp_045_client_tool(world) {
    const peer = await world.standard({ tools: [ADDER] });
    const id = peer.invoke('call add {"a": 2, "b": 3}');
    const { call_id, args } = await peer.record(id, "call");
    const result = { kind: "result", parent: id, call_id, ok: true, output: args.a + args.b };
    equal((await peer.finish(peer.invoke(null, result))).at(-1).value.finish, "accepted", "result");
    equal(textOf(await peer.finish(id)), "result: 5", "answer");
    await peer.error(peer.invoke(null, result), 2303);
    const late = peer.invoke("call add within 200");
    await peer.record(late, "call");
    await peer.error(late, 2403);
    peer.close();
  },

  async ask_and_reply(world) {
    const peer = await world.standard();
    const id = peer.invoke("ask your name?");
    const { ask_id } = await peer.record(id, "ask");
    await peer.finish(peer.invoke(null, { kind: "reply", parent: id, ask_id, text: "Ann" }));
    equal(textOf(await peer.finish(id)), "answer: Ann", "answer");
    peer.close();
  },

  async asp_044_tools(world) {
    const peer = await world.standard();
    const use = (tool, args) => peer.invoke(null, { kind: "tool", tool, args });
    const end = (await peer.finish(use("greet", { name: "Bo" }))).at(-1).value;
    equal([end.finish, end.output], ["complete", { greeting: "Hello, Bo!" }], "end");
    await peer.error(use("greet", { name: 7 }), 2302);
    await peer.error(use("nothing_of_the_kind", {}), 2301);
    peer.close();
  },

  async asp_042_tool_revisions_grow(world) {
    const peer = await world.standard();
    for (const text of ["add tool", "remove tool"]) await peer.turn(text);
    await peer.finish(peer.invoke(null, { kind: "list" }));
    const tools = peer.inbox.filter((f) => f.opcode === TOOL_DEF);
    equal(tools.map((f) => f.value.op ?? "add"), ["add", "add", "remove", "set"], "ops");
    ensure(tools.every((f, index) => index === 0 || f.value.rev > tools[index - 1].value.rev), tools);
    peer.close();
  },

  // --- requests (sections 6, 7) ---

  async asp_028_requests_run_side_by_side(world) {
    const peer = await world.standard();
    const slow = peer.invoke("count 30 every 100");
    await peer.record(slow, "text");
    await peer.turn("echo quick");
    ensure(!peer.ended.has(slow), "one after the other");
    ensure(textOf(await peer.finish(slow)).endsWith(" 30 "), "order within an id");
    peer.close();
  },

  async serial_sessions_queue_with_positions(world) {
    const [peer, session] = [await world.standard(), name()];
    const ids = range(3).map((number) => peer.invoke(`words ${number} done every 500`, { session }));
    for (const [number, id] of ids.entries()) {
      const frames = await peer.finish(id);
      const queued = frames.filter((f) => f.member("state") === "queued").map((f) => f.value.pos);
      equal(queued[0] ?? 0, number, "first position");
      equal(textOf(frames), `${number} done`, "answer");
    }
    peer.close();
  },

  async asp_046_deadline(world) {
    const peer = await world.standard();
    const began = performance.now();
    await peer.error(peer.invoke("hang after 2", { deadline_ms: 1000 }), 2405);
    ensure(performance.now() - began < 3_000, "too late");
    peer.close();
  },

  async asp_047_idempotency_over_two_connections(world) {
    const [one, two, idem] = [await world.standard(), await world.standard({ enc: "msgpack" }), name()];
    const id = one.invoke("count 30 every 20", { idem });
    await one.record(id, "text");
    const frames = await two.turn("count 30 every 20", { idem });
    equal(textOf(frames), counted(30), "what the second one sees");
    equal(numbersOf(frames), range(frames.length), "numbers");
    equal((await one.finish(id)).at(-1).value.finish, "complete", "the first one is not disturbed");
    await two.error(two.invoke("count 31 every 20", { idem }), 2305);
    equal(textOf(await one.turn("count 30 every 20", { idem })), counted(30), "once more");
    for (const peer of [one, two]) peer.close();
  },

  // --- resume (section 13.2) ---

  async asp_053_cut_and_resume(world) {
    for (const enc of ["json", "msgpack"]) {
      const peer = await world.standard({ enc });
      const [half, quick] = [peer.invoke("count 80 every 60"), peer.invoke("count 5")];
      const frames = [];
      for (const _ of range(12)) frames.push(await peer.next((f) => f.id === half));
      await peer.cut();
      await sleep(200);
      const again = await world.resumed(peer, { [half]: frames.at(-1).value.n + 1, [quick]: 0, 999: 0 }, { enc });
      equal([again.accept.resumed, again.accept.cid], [true, peer.accept.cid], "resumed");
      equal(again.accept.lost, [999], "lost");
      await again.error(999, 2601);
      const rest = await again.finish(half);
      equal(numbersOf([...frames, ...rest]), range(frames.length + rest.length), "every n exactly once");
      equal(textOf([...frames, ...rest]), counted(80), "answer");
      ensure(rest[0].flags & REPLAY && !(rest.at(-1).flags & REPLAY), "REPLAY on what was missed only");
      const whole = await again.finish(quick);
      ensure(textOf(whole) === counted(5) && whole.every((f) => f.flags & REPLAY), whole);
      again.close();
    }
  },

  async asp_053_an_id_that_was_used_in_two_sessions(world) {
    const [peer, a, b] = [await world.standard(), name(), name()];
    for (const [id, session] of [[1, a], [2, b]]) await peer.turn("echo earlier", { id, session });
    for (const [id, session] of [[1, b], [2, a]]) peer.invoke("count 40 every 15", { id, session });
    const frames = { 1: [], 2: [] };
    for (const id of [1, 2]) for (const _ of range(8)) frames[id].push(await peer.next((f) => f.id === id));
    await peer.cut();
    const again = await world.resumed(peer, { 1: frames[1].at(-1).value.n + 1, 2: frames[2].at(-1).value.n + 1 });
    for (const id of [1, 2]) {
      equal(textOf([...frames[id], ...(await again.finish(id))]), counted(40), `the later request of id ${id}`);
    }
    again.close();
  },

  async asp_054_a_token_is_used_once(world) {
    const peer = await world.standard();
    const id = peer.invoke("hang after 1");
    await peer.record(id, "text");
    await peer.cut();
    const again = await world.resumed(peer, { [id]: 2 });
    equal([again.rejected, again.accept.resumed], [null, true], "resumed");
    const thief = await world.resumed(peer, { [id]: 2 });
    equal(thief.rejected?.value.code, 2600, "a used token");
    again.interrupt(id);
    equal((await again.finish(id)).at(-1).value.finish, "interrupted", "the rightful one is not disturbed");
    for (const each of [again, thief]) each.close();
  },

  async asp_055_resume_by_another_principal(world) {
    const peer = await world.standard();
    const id = peer.invoke("hang after 1");
    await peer.record(id, "text");
    const thief = await world.resumed(peer, { [id]: 0 }, { token: world.bob });
    equal(thief.rejected?.value.code, 2600, "rejected");
    await thief.quiet(100);
    peer.interrupt(id);
    equal((await peer.finish(id)).at(-1).value.finish, "interrupted", "the rightful one is not disturbed");
    for (const each of [peer, thief]) each.close();
  },

  async asp_079_takeover(world) {
    const peer = await world.standard();
    const id = peer.invoke("count 60 every 15");
    const frames = [];
    for (const _ of range(5)) frames.push(await peer.next((f) => f.id === id));
    const again = await world.resumed(peer, { [id]: frames.at(-1).value.n + 1 });
    await peer.closed(4409);
    frames.push(...(await again.finish(id)));
    equal(numbersOf(frames), range(frames.length), "every n exactly once");
    again.close();
  },

  // --- who may do what (sections 2.2, 19) ---

  async a_foreign_session_looks_like_none(world) {
    const [ann, bob] = [await world.standard(), await world.standard({ token: world.bob })];
    const who = async (peer, session) => (await peer.turn("who", { session, want: ["data"] })).at(-1).value.output;
    const mine = await who(ann, name());
    const absent = `ses_${range(26).map(() => "0123456789abcdefghjkmnpqrstvwxyz"[randomInt(32)]).join("")}`;
    const [foreign, none] = [await who(bob, mine.session), await who(bob, absent)];
    ensure(foreign.session !== mine.session, "bob is in ann's session");
    equal(Object.keys(foreign), Object.keys(none), "somebody else's session and one that does not exist");
    equal([foreign.principal, none.principal], ["bob", "bob"], "principal");
    equal((await who(ann, mine.session)).session, mine.session, "ann still has hers");
    for (const peer of [ann, bob]) peer.close();
  },

  async reauth(world) {
    const peer = await world.standard({ token: world.token({ lifetime: 4 }), features: [...STANDARD, "reauth"] });
    await peer.error(0, 2104);
    peer.sayHello({ op: "auth", token: world.token() });
    equal((await peer.next((f) => f.opcode === HELLO)).value.op, "authed", "op");
    await sleep(5_000);
    equal(textOf(await peer.turn("echo renewed")), "renewed", "answer after the first token has ended");
    peer.sayHello({ op: "auth", token: world.token({ sub: "mallory" }) });
    await peer.closed(4401);
  },

  async expiry_closes(world) {
    const [busy, silent] = [await world.standard({ token: world.token({ lifetime: 3 }) }), await Peer.open(world.url, world.token({ lifetime: 3 }))];
    busy.invoke("hang after 1");
    await busy.closed(4401, 8_000);
    ensure(busy.errors().includes(2102), busy.inbox);
    await silent.closed(4401, 8_000);
  },
};

/** Run alone and in this order, against the server with default limits. */
const STRICT = {
  async asp_050_flood(world) {
    const peer = await world.standard();
    for (const _ of range(8)) {
      for (const _ of range(40)) if (peer.over === null) peer.invoke("nothing");
      await sleep(500);
    }
    await peer.closed(4429);
    ensure(peer.errors().includes(2200), "no RATE_LIMITED");
    equal(peer.errors().filter((code) => code === 2205).length, 1, "FLOOD");
  },

  async asp_051_interrupts_get_through(world) {
    const peer = await world.standard({ token: world.bob });
    const id = peer.invoke("hang after 1");
    await peer.record(id, "text");
    for (const _ of range(30)) peer.invoke("nothing");
    peer.interrupt(id);
    const sent = performance.now();
    equal((await peer.finish(id)).at(-1).value.finish, "interrupted", "finish");
    ensure(performance.now() - sent < 2_000, "too late");
    await peer.cut();
  },

  async upgrade_429(world) {
    for (const _ of range(60)) {
      const answer = await world.upgrade();
      if (answer.status !== 429) continue;
      ensure(Number(answer.headers["retry-after"]) >= 1, answer.headers);
      return equal(JSON.parse(answer.body).error.code, 2200, "code");
    }
    throw new Failed("never too many connections");
  },
};

/** The caller sends SIGTERM when `ready` is printed. */
async function asp_078_goaway(world) {
  const [peer, idle] = [await world.standard(), await world.standard({ enc: "msgpack" })];
  const id = peer.invoke("count 40 every 100");
  await peer.record(id, "text");
  console.log("ready");
  const goaway = (await peer.next((f) => f.opcode === HELLO)).value;
  equal(goaway.op, "goaway", "op");
  ensure(goaway.retry_ms >= 0 && goaway.reason, goaway);
  await peer.error(peer.invoke("echo too late"), 2501);
  equal((await world.upgrade()).status, 503, "new connections");
  equal((await peer.finish(id)).at(-1).value.finish, "complete", "what runs may finish");
  await peer.closed(1012);
  await idle.closed(1012);
  equal(idle.inbox.filter((f) => f.opcode === HELLO).map((f) => f.value.op), ["goaway"], "told as well");
}

const results = [];

async function run(title, check, world) {
  let timer;
  const patience = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failed("took too long")), 40_000);
  });
  try {
    await Promise.race([check(world), patience]);
    results.push(true);
    console.log(`ok ${title}`);
  } catch (error) {
    results.push(false);
    const why = error instanceof Failed ? error.message : String(error.stack);
    console.log(`FAIL ${title} ${why.split(/\s+/).join(" ")}`);
  } finally {
    clearTimeout(timer);
  }
}

const [url, ...options] = process.argv.slice(2);
const only = env("PEER_ONLY").split(",").filter(Boolean);
const wanted = (checks) =>
  Object.entries(checks).filter(([title]) => only.length === 0 || only.some((part) => title.includes(part)));
const world = new World(url);
if (options.includes("--drain")) {
  await run("asp_078_goaway", asp_078_goaway, world);
} else {
  const queue = wanted(CHECKS);
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) await run(...next, world);
  };
  const alone = async () => {
    if (!options.includes("--strict")) return;
    const narrow = new World(options[options.indexOf("--strict") + 1]);
    for (const [title, check] of wanted(STRICT)) await run(title, check, narrow);
  };
  await Promise.all([alone(), work(), work(), work(), work()]);
}
const passed = results.filter(Boolean).length;
console.log(`${passed} passed, ${results.length - passed} failed`);
process.exit(results.length > 0 && passed === results.length ? 0 : 1);
