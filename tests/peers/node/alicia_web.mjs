// Checks that a web client of the lite profile shows what it should: `alicia_web.mjs URL`.
//
// The server answers with the story `tests/peers/alicia_story.toml`; PEER_KEY_ANN is the credential that a proxy adds.
// What is shown is read off the rendered page.

import { act, createElement as h } from "react";
import { create } from "react-test-renderer";

import { Chat, Socket, api, proxy } from "./alicia_web_client.mjs";
import { Failed, ensure, show } from "./asp_wire.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const PATIENCE = 20_000;

/** A page on which a conversation is open. */
class Page {
  static async open(base, conversation) {
    const page = new Page();
    Object.assign(page, { call: api(base), socket: new Socket(base), conversation, handle: { current: null } });
    const { call, socket, handle } = page;
    await act(async () => void (page.tree = create(h(Chat, { call, socket, conversation, handle }))));
    await page.until((shown) => shown.phase === "subscribed", "the subscription");
    return page;
  }

  get hook() {
    return this.handle.current.current;
  }

  /** What the page shows: per bubble its role, status, text, error, tools and memories. */
  shown() {
    const texts = (node, kind) => (node.children ?? []).filter(({ type }) => type === kind).map(({ children }) => (children ?? []).join(""));
    const main = this.tree.toJSON();
    const bubbles = (main.children ?? []).map((node) => ({
      id: node.props.id, role: node.props.role, status: node.props.status, text: texts(node, "p")[0],
      errors: texts(node, "strong"), tools: texts(node, "code"), memories: texts(node, "small"),
    }));
    return { phase: main.props.phase, title: main.props.title, bubbles };
  }

  /** Waits until the page shows something; what comes meanwhile is rendered as a browser would. */
  async until(condition, what) {
    const end = Date.now() + PATIENCE;
    for (;;) {
      const shown = this.shown();
      if (condition(shown)) return shown;
      if (Date.now() > end) throw new Failed(`${what} did not come: ${show(shown)} ${show(this.hook.state.complaints)}`);
      await act(async () => new Promise((resolve) => setTimeout(resolve, 5)));
    }
  }

  /** Sends a message and waits until its answer has come to an end. */
  async say(content) {
    await act(async () => this.hook.send(content));
    return this.settled(content);
  }

  async settled(content) {
    const { bubbles } = await this.until(({ bubbles }) => {
      const at = bubbles.findLastIndex(({ text }) => text === content);
      return at >= 0 && bubbles[at + 1] && bubbles[at + 1].status !== "streaming";
    }, `an answer to ${content}`);
    return bubbles[bubbles.findLastIndex(({ text }) => text === content) + 1];
  }

  /** The client had nothing to complain about. */
  content() {
    ensure(this.hook.state.complaints.length === 0, `complaints: ${show(this.hook.state.complaints)}`);
  }

  async close() {
    await act(async () => this.tree.unmount());
    this.socket.close();
  }
}

const checks = {
  async al_113_every_answer_is_shown_below_its_question(world) {
    const page = await world.page();
    for (let number = 0; number < 30; number += 1) {
      const answer = await page.say(`say number ${number}`);
      ensure(answer.text === `number ${number}` && answer.status === "completed", show(answer));
    }
    page.content();
    await page.close();
  },

  async al_112_history_is_shown_after_a_reload(world) {
    const page = await world.page();
    await page.say("sentences 3");
    await page.say("fail after 2");
    const before = page.shown().bubbles.map(({ id, role, text }) => ({ id, role, text: text.trim() }));
    await page.close();
    const again = await world.page(page.conversation);
    const after = again.shown().bubbles;
    ensure(after.every(({ text }) => typeof text === "string"), `blank bubbles: ${show(after)}`);
    // What failed is no part of the path, and is shown with the branches.
    const { messages } = await again.call("GET", `/conversations/${page.conversation}/messages?all=true`);
    const all = messages.map(({ id, role, content }) => ({ id, role, text: content.trim() }));
    ensure(show(all) === show(before), `${show(all)} instead of ${show(before)}`);
    ensure(messages.at(-1).status === "error" && messages.every(({ branch_index }) => branch_index === 0), show(messages));
    await again.close();
  },

  async al_111_memories_are_shown_below_the_answer_also_after_a_reload(world) {
    const page = await world.page();
    const memory = await page.call("POST", "/memories", { content: "Ann drinks green tea" });
    const answer = await page.say("say Ann drinks green tea");
    ensure(show(answer.memories) === show(["Ann drinks green tea"]), show(answer));
    ensure(answer.text === "Ann drinks green tea", show(answer));
    page.content();
    await page.close();
    const again = await world.page(page.conversation);
    ensure(show(again.shown().bubbles[1].memories) === show(answer.memories), show(again.shown()));
    await again.call("DELETE", `/memories/${memory.id}`);
    await again.close();
  },

  async al_119_tools_are_shown_also_after_a_reload(world) {
    const page = await world.page();
    const good = await page.say("tool weather");
    ensure(show(good.tools) === show(["weather: success"]), show(good));
    const bad = await page.say("tool-error weather no luck");
    ensure(bad.tools.length === 1 && bad.tools[0].includes("execution_error"), show(bad));
    page.content();
    await page.close();
    const again = await world.page(page.conversation);
    const tools = again.shown().bubbles.flatMap(({ tools }) => tools);
    ensure(show(tools) === show([...good.tools, ...bad.tools]), show(tools));
    await again.call("POST", `/messages/${good.id}/feedback`, { rating: 1, note: "" });
    ensure((await again.call("GET", `/messages/${good.id}/feedback`)).rating === 1, "feedback");
    ensure((await again.call("GET", "/tool-uses?limit=50&offset=0")).total >= 2, "tool uses");
    await again.close();
  },

  async al_113_a_failing_answer_is_shown(world) {
    const page = await world.page();
    for (const [words, text] of [["fail", ""], ["fail after 1", "This is sentence 1."]]) {
      const answer = await page.say(words);
      ensure(answer.status === "error" && answer.text.trim() === text, show(answer));
      ensure(show(answer.errors) === show(["the model is away"]), show(answer));
    }
    const next = await page.say("say and on it goes");
    ensure(next.text === "and on it goes", show(next));
    page.content();
    await page.close();
  },

  async al_114_what_is_synced_while_an_answer_streams_stays_in_the_history(world) {
    const page = await world.page();
    await act(async () => page.hook.send("sentences 12 every 50"));
    await page.until(({ bubbles }) => bubbles[1]?.text.includes("sentence 1."), "the first sentence");
    const { synced_messages: synced } = await page.call("POST", `/conversations/${page.conversation}/sync`, {
      messages: [{ local_id: "local_1", sequence_number: 1, role: "user", contents: "from the phone", created_at: "2026-01-01T00:00:00Z" }],
    });
    ensure(synced[0].status === "synced", show(synced));
    await page.until(({ bubbles }) => bubbles[1].status === "completed", "the answer");
    await page.until(({ bubbles }) => bubbles.some(({ text }) => text === "from the phone"), "the other message");
    page.content();
    await page.close();
    const again = await world.page(page.conversation);
    const shown = again.shown().bubbles.map(({ role, text }) => [role, text.slice(0, 19)]);
    const expected = [["user", "sentences 12 every "], ["assistant", "This is sentence 1."], ["user", "from the phone"]];
    ensure(show(shown) === show(expected), show(shown));
    await again.close();
  },

  async al_118_a_request_to_speak_is_answered(world) {
    const page = await world.page();
    await act(async () => page.hook.join());
    await page.until(() => page.hook.state.voice !== "", "an answer about voice");
    ensure(page.hook.state.voice.startsWith("no voice: "), page.hook.state.voice);
    page.content();
    await page.close();
  },

  async al_119_a_second_answer_is_a_branch(world) {
    const page = await world.page();
    const first = await page.say("say again");
    await act(async () => page.hook.regenerate(first.id));
    await page.until(({ bubbles }) => bubbles.length === 3 && bubbles[2].status === "completed", "a second answer");
    const { siblings } = await page.call("GET", `/messages/${first.id}/siblings`);
    ensure(show(siblings.map(({ branch_index, content }) => [branch_index, content])) === show([[0, "again"], [1, "again"]]), show(siblings));
    page.content();
    await page.close();
  },

  async al_119_preferences_and_servers_are_there(world) {
    const call = api(world.base);
    const usual = await call("GET", "/preferences");
    ensure(typeof usual.voice_speed === "number" && usual.user_id === "ann", show(usual));
    ensure((await call("PATCH", "/preferences", { theme: "dark" })).theme === "dark", "a preference");
    ensure(Array.isArray((await call("GET", "/mcp/servers")).servers), "servers");
    ensure(typeof (await call("GET", "/tools")).tools === "object", "tools");
    const refused = await fetch(`${world.base}/api/v1/nothing`);
    ensure(refused.status === 404 && (await refused.json()).code === 404, "an unknown path");
  },
};

const before = await proxy(process.argv[2], process.env.PEER_KEY_ANN);
const world = {
  base: before.base,
  async page(conversation) {
    conversation ??= (await api(before.base)("POST", "/conversations", { title: "Tea" })).id;
    return Page.open(before.base, conversation);
  },
};
let failed = 0;
for (const [title, check] of Object.entries(checks)) {
  try {
    await check(world);
    console.log(`ok ${title}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${title} ${String(error instanceof Failed ? error.message : error.stack).split(/\s+/).join(" ")}`);
  }
}
before.close();
console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
