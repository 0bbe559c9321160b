import assert from "node:assert/strict";
import { test } from "node:test";
import { Floor } from "../dist/floor.js";
import { END, MONITOR, OUTPUT } from "../dist/frames.js";
import { Playback } from "../dist/playback.js";
import { FakeLink, FakeSpeaker, pcm, until } from "./support.mjs";

function stage(state = "idle", detection = {}) {
  const link = new FakeLink(state);
  Object.assign(link.turnDetection, detection);
  const speaker = new FakeSpeaker();
  const playback = new Playback(link, speaker, () => 0);
  let turns = 0;
  const floor = new Floor(link, playback, () => String(++turns));
  floor.microphone = true;
  const hear = (loud, frames) => {
    for (let i = 0; i < frames; i++) floor.heard(pcm(loud));
  };
  const speak = (changes = {}) => {
    const data = { response_id: "r-4", stream_id: 32769, ...changes };
    playback.receive({ type: "response.audio", data });
    link.become("ai_speaking", "response.audio");
    playback.receive({ type: "audio.start", data: { response_id: "r-4", stream_id: 32769, format: "pcm16/24000" } });
  };
  return { link, speaker, playback, floor, hear, speak };
}

test("vip_027_no_microphone_audio_is_sent_while_idle", () => {
  const { link, floor, hear } = stage();
  hear(true, 100);
  floor.handsFree = true;
  hear(false, 20);
  hear(true, 50);
  assert.equal(link.types().includes("input.start"), true);
  assert.deepEqual(link.frames, []);
});

test("vip_026_speech_is_announced_before_the_turn_that_it_begins", () => {
  const { link, floor, hear } = stage();
  floor.handsFree = true;
  hear(false, 30);
  assert.deepEqual(link.sent, []);
  hear(true, 10);
  assert.deepEqual(link.types(), ["input.detected", "input.start"]);
  const [detected, start] = link.sent;
  assert.equal(detected.data.origin, "client");
  assert.equal(start.data.trigger, "vad");
  assert.equal(start.data.preroll_ms <= 500 && start.data.preroll_ms > 0, true);
  assert.equal(start.turn_id, "t-1");
});

test("a spoken turn is held until it is granted, and ends with silence", () => {
  const { link, floor, hear } = stage();
  floor.handsFree = true;
  hear(false, 30);
  hear(true, 10);
  link.become("user_speaking", "input.start");
  const head = link.frames.length;
  assert.equal(head >= 20, true, "what was said before the grant is sent after it");
  hear(true, 20);
  hear(false, 34);
  assert.equal(link.types().at(-1), "input.detected");
  hear(false, 3);
  assert.deepEqual(link.sent.at(-1).type, "input.end");
  assert.equal(link.sent.at(-1).data.reason, "silence");
  const frames = link.frames;
  assert.deepEqual(frames.map((frame) => frame.seq), frames.map((_, index) => index));
  assert.deepEqual(frames.map((frame) => frame.offsetMs), frames.map((_, index) => index * 20));
  assert.equal(frames.every((frame) => frame.state === "user_speaking" && frame.stream === 1), true);
  assert.equal(frames.at(-1).flags, END);
  hear(true, 10);
  assert.equal(link.frames.length, frames.length);
});

test("a key that is held begins and ends a turn, even if it is let go before the grant", () => {
  const { link, floor, hear } = stage();
  floor.begin("ptt");
  hear(true, 10);
  floor.end("ptt_release");
  hear(true, 10);
  assert.deepEqual(link.types(), ["input.start"]);
  link.become("user_speaking", "input.start");
  assert.equal(link.sent.at(-1).type, "input.end");
  assert.equal(link.sent.at(-1).data.reason, "ptt_release");
  assert.equal(link.frames.length, 11);
});

test("a turn in which nobody speaks times out", () => {
  const { link, floor, hear } = stage();
  floor.begin("follow_up");
  link.become("user_speaking", "input.start");
  hear(false, 399);
  assert.deepEqual(link.types(), ["input.start"]);
  hear(false, 1);
  assert.deepEqual(link.sent.at(-1), { type: "input.timeout", id: "c-2", data: { speech_seen: false }, turn_id: "t-1", role: "user" });
});

test("vip_031_vip_032_barging_in_stops_playback_first_and_says_how_much_was_heard", async () => {
  const { link, floor, speaker, hear, speak } = stage();
  floor.handsFree = true;
  hear(false, 30);
  speak();
  hear(true, 12);
  assert.deepEqual(speaker.log, [["stop"]], "silence does not wait for anything");
  await until(() => link.types().includes("input.barge_in"));
  assert.deepEqual(link.types(), ["input.detected", "input.barge_in"]);
  const { data, turn_id: turn } = link.sent[1];
  assert.deepEqual([data.trigger, data.origin, data.response_id, data.played_ms, turn], ["vad", "client", "r-4", 1840, "t-1"]);
  link.become("user_speaking", "input.barge_in");
  assert.equal(link.frames.length > 0, true);
});

test("a late frame of what was interrupted is not played", async () => {
  const { link, floor, playback, speaker, speak } = stage();
  speak();
  playback.frame({ kind: OUTPUT, flags: 0, stream: 32769, seq: 0, offsetMs: 0, payload: new Uint8Array(960) });
  floor.interrupt();
  await until(() => link.types().includes("input.barge_in"));
  playback.frame({ kind: OUTPUT, flags: 0, stream: 32769, seq: 1, offsetMs: 20, payload: new Uint8Array(960) });
  playback.drained(32769, 2000);
  assert.deepEqual(speaker.log, [["play", 32769, 960], ["stop"]]);
  link.become("user_speaking", "input.barge_in");
  assert.deepEqual(link.types(), ["input.barge_in", "input.cancel"]);
});

test("what cannot be interrupted is not", async () => {
  const { link, floor, speaker, hear, speak } = stage();
  const refused = [];
  floor.on("refused", (error) => refused.push(error.code));
  floor.handsFree = true;
  hear(false, 30);
  speak({ interruptible: false });
  hear(true, 30);
  floor.interrupt();
  await Promise.resolve();
  assert.deepEqual([link.types(), speaker.log, refused], [[], [], ["PROTO_NOT_INTERRUPTIBLE"]]);
});

test("an interruption that the server heard is answered with its turn", async () => {
  const { link, floor, speaker, speak } = stage("idle", { type: "server_vad" });
  speak();
  floor.receive({ type: "input.barge_in", turn_id: "t-of-server", data: { trigger: "vad", origin: "server" } });
  assert.deepEqual(speaker.log, [["stop"]]);
  await until(() => link.types().includes("input.barge_in"));
  assert.equal(link.sent[0].turn_id, "t-of-server");
  assert.equal(link.sent[0].data.played_ms, 1840);
});

test("a server that listens for interruptions gets marked frames, and only while it speaks or thinks", () => {
  const { link, floor, hear, speak } = stage("idle", { type: "server_vad" });
  floor.handsFree = true;
  hear(false, 10);
  speak();
  hear(false, 3);
  assert.deepEqual(link.frames.map((frame) => [frame.flags, frame.seq]), [[MONITOR, 0], [MONITOR, 1], [MONITOR, 2]]);
  link.become("invoke_action", "response.tool");
  hear(false, 3);
  assert.equal(link.frames.length, 3);
});

test("what is written waits for the floor", async () => {
  const { link, floor, speak } = stage();
  floor.say("  open the orders ");
  assert.deepEqual(link.sent[0].data, { mode: "text", trigger: "text" });
  link.become("user_speaking", "input.start");
  assert.deepEqual(link.types(), ["input.start", "input.text", "input.end"]);
  assert.equal(link.sent[1].data.text, "open the orders");
  link.become("ai_thinking", "input.end");
  speak();
  link.sent.length = 0;
  floor.say("stop that");
  await until(() => link.types().includes("input.barge_in"));
  link.become("user_speaking", "input.barge_in");
  link.become("idle", "input.cancel");
  await until(() => link.types().includes("input.start"));
  link.become("user_speaking", "input.start");
  assert.deepEqual(link.types(), ["input.barge_in", "input.cancel", "input.start", "input.text", "input.end"]);
});

test("the screen can be told about before a turn begins, and no later", () => {
  const { link, floor } = stage();
  floor.beforeTurn = () => link.send("state.update", {});
  floor.say("this one");
  assert.deepEqual(link.types(), ["state.update", "input.start"]);
});

test("a refused bid is given up", () => {
  const { link, floor, hear } = stage();
  floor.begin("ptt");
  hear(true, 5);
  floor.receive({ type: "error.recoverable", data: { code: "PROTO_INVALID_TRANSITION", message: "no", ref_id: link.sent[0].id } });
  link.become("user_speaking", "input.start");
  assert.deepEqual(link.frames, []);
});

test("a question is listened to once it was asked", async () => {
  const { link, speak, playback } = stage();
  speak({ expects_reply: true });
  playback.drained(32769, 900);
  assert.deepEqual(link.sent.at(-1).data, { response_id: "r-4", played_ms: 900, status: "played" });
  link.become("idle", "audio.complete");
  await until(() => link.types().includes("input.start"));
  assert.equal(link.sent.at(-1).data.trigger, "follow_up");
});

test("vip_071_the_end_of_playback_is_reported_however_it_comes", () => {
  const spoken = stage();
  spoken.speak();
  spoken.playback.receive({ type: "audio.end", data: { response_id: "r-4", stream_id: 32769, duration_ms: 500 } });
  assert.deepEqual([spoken.speaker.log, spoken.link.types()], [[["end", 32769]], []]);
  spoken.playback.drained(32769, 500);
  assert.deepEqual(spoken.link.types(), ["audio.complete"]);
  const mute = stage();
  mute.speaker.audible = false;
  mute.speak();
  mute.playback.receive({ type: "audio.end", data: { response_id: "r-4", stream_id: 32769, duration_ms: 500 } });
  assert.equal(mute.link.sent[0].data.status, "failed");
  const written = stage();
  written.playback.receive({ type: "response.audio", data: { response_id: "r", modality: "text", content: "Hello." } });
  assert.deepEqual(written.link.types(), ["audio.complete"]);
  const silent = stage();
  silent.playback.receive({ type: "response.audio", data: { response_id: "r" } });
  silent.playback.receive({ type: "response.done", data: { response_id: "r", status: "failed" } });
  assert.equal(silent.link.sent[0].data.status, "failed");
});
