/** What the demo application promises, in a real browser against the real server. */

import assert from "node:assert/strict";
import { shopStories } from "./support/story.mjs";

const { withShop, demo } = shopStories();

withShop("vip_082 a spoken command changes the page and is answered aloud", { says: [2.5, "please open the orders page", 120] }, async (shop) => {
  const { page } = shop;
  await shop.screenshot("state-not-connected");
  await shop.connect();
  await shop.screenshot("state-idle");
  await page.click("#microphone");
  await shop.state("user_speaking");
  await shop.screenshot("state-user-speaking");
  await page.locator("#orders-title").waitFor();
  await shop.state("ai_speaking");
  await shop.screenshot("state-ai-speaking");
  await shop.answer(/./);
  assert.match(await page.innerText("#captions .user"), /orders/i);
  assert.equal(new URL(page.url()).hash, "#/orders");
  assert.ok((await shop.loudMs()) > 300, `heard for ${await shop.loudMs()} ms`);
  const states = await shop.states();
  for (const state of ["not_connected", "connecting", "idle", "user_speaking", "ai_thinking", "invoke_action", "ai_speaking"]) {
    assert.ok(states.includes(state), `${state} is missing from ${states}`);
  }
  const looks = await shop.looks();
  for (const feature of ["icon", "colour", "text", "spoken"]) {
    const seen = Object.values(looks).map((look) => look[feature]);
    assert.equal(new Set(seen).size, seen.length, `${feature}: ${seen}`);
  }
  const [result] = await shop.events("action.result");
  assert.equal(result.data.event, "navigation.success");
  assert.match(result.data.context.narration, /^Orders page/);
  const [complete] = await shop.events("audio.complete");
  assert.equal(complete.data.status, "played");
});

withShop("speaking over the assistant stops it at once, and is understood", { says: [3.5, "please open the orders page", 120] }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await shop.type("what can I do");
  await shop.state("ai_speaking");
  await page.click("#microphone");
  await page.locator("#captions .assistant.interrupted").first().waitFor();
  await page.locator("#orders-title").waitFor();
  await shop.answer(/./);
  const [bargeIn] = (await shop.events("input.barge_in")).filter((event) => event.direction === "out");
  assert.equal(bargeIn.data.trigger, "vad");
  assert.ok(bargeIn.data.played_ms > 500, `played ${bargeIn.data.played_ms} ms`);
  const detected = await shop.events("input.detected");
  assert.ok(detected[0].seq < bargeIn.seq);
  const [interrupted] = await shop.events("audio.interrupted");
  assert.equal(interrupted.data.response_id, bargeIn.data.response_id);
  const incomplete = (await shop.events("response.done")).filter((event) => event.data.status === "incomplete");
  assert.deepEqual(incomplete.map((event) => event.data.response_id), [bargeIn.data.response_id]);
});

withShop("nothing sensitive happens when the answer is no", { says: [2.5, "please cancel the order", 120] }, async (shop) => {
  const { page } = shop;
  await page.goto(`${demo()}#/orders`);
  await shop.connect();
  await page.click("#microphone");
  const dialog = page.getByRole("alertdialog", { name: "Cancel order 1042?" });
  await dialog.waitFor();
  await shop.screenshot("state-invoke-action");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.answer), "no");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await shop.answer(/./);
  assert.equal(await page.locator(".order[data-status='on its way']").count(), 1);
  const results = await shop.events("action.result");
  assert.deepEqual(results.map((event) => event.data.data?.status), ["rejected"]);
});

withShop("a sensitive action happens after a yes, and once", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await shop.type("open the orders page");
  await page.locator("#orders-title").waitFor();
  await shop.answer(/./);
  await shop.type("cancel the order");
  await page.getByRole("button", { name: "Yes, do it" }).click();
  await page.locator(".order[data-status='cancelled']").waitFor();
  await shop.state("idle");
  const confirmed = (await shop.events("action.invoke")).filter((event) => event.data.confirmation_id);
  assert.deepEqual(confirmed.map((event) => event.data.action_id), ["order.cancel"]);
});

withShop("a page that is loaded again goes on where it was", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await shop.type("add honey to the cart");
  await page.locator("#cart-items", { hasText: "1 × Honey" }).waitFor();
  await shop.answer(/./);
  const [first] = await shop.events("session.connected");
  await page.reload();
  await shop.state("idle");
  const [again] = await shop.events("session.connected");
  assert.deepEqual([again.data.resumed, again.data.session_id], [true, first.data.session_id]);
  assert.ok(again.seq > first.seq);
  await page.locator("#captions .user", { hasText: "add honey" }).waitFor();
  await shop.screenshot("resumed");
  await shop.type("add honey to the cart");
  await page.locator("#cart-items", { hasText: "2 × Honey" }).waitFor();
  await shop.answer(/./);
  await page.click("#hang-up");
  await shop.state("not_connected");
  await page.reload();
  assert.equal(await page.getAttribute(".dock", "data-state"), "not_connected");
});

withShop("whoever holds the space bar is heard until it is let go", { says: [2, "please open the settings page", 120] }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.down("Space");
  await shop.state("user_speaking");
  // Longer than what is said, and than the silence that would end a turn by itself.
  await page.waitForTimeout(6000);
  assert.equal(await page.getAttribute(".dock", "data-state"), "user_speaking");
  await page.keyboard.up("Space");
  await page.locator("#settings-title").waitFor();
  await shop.answer(/./);
  const [end] = await shop.events("input.end");
  assert.equal(end.data.reason, "ptt_release");
});

withShop("vip_084 without a microphone everything can be typed", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.click("#microphone");
  await page.getByText("You can type instead").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "say");
  assert.equal((await shop.events("error.recoverable"))[0].data.code, "REC_MIC_UNAVAILABLE");
  await shop.type("search for tea");
  await page.locator("#product-coffee").waitFor({ state: "hidden" });
  await shop.answer(/./);
  assert.equal(await page.inputValue("#search"), "tea");
  assert.equal(await page.locator("#product-tea").isVisible(), true);
});

withShop("the stop button silences the assistant, and Escape does too", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  for (const stop of [() => page.click("#stop"), () => page.keyboard.press("Escape")]) {
    await shop.type("what can I do");
    await shop.state("ai_speaking");
    const before = await shop.loudMs();
    await page.waitForTimeout(1500);
    assert.ok((await shop.loudMs()) > before, "it spoke");
    await stop();
    await shop.state("idle");
    const after = await shop.loudMs();
    await page.waitForTimeout(1500);
    assert.ok((await shop.loudMs()) - after < 100, "it went on speaking");
  }
});

withShop("vip_079 settings of every kind are filled by voice, and the password stays out of sight", {}, async (shop) => {
  const { page } = shop;
  await page.goto(`${demo()}#/settings`);
  await shop.connect();
  for (const said of ["choose express delivery", "turn on the newsletter", "set the bags to five", "set the password to sesame"]) {
    await shop.type(said);
    await shop.state("ai_speaking");
    await shop.state("idle");
  }
  assert.equal(await page.isChecked("input[value=express]"), true);
  assert.equal(await page.isChecked("#setting-newsletter"), true);
  assert.equal(await page.inputValue("#setting-bags"), "5");
  assert.equal(await page.inputValue("#setting-password"), "sesame");
  for (const type of ["action.invoke", "action.result", "state.update"]) {
    assert.equal(JSON.stringify(await shop.events(type)).includes("sesame"), false, type);
  }
  const filled = (await shop.events("action.invoke")).find((event) => event.data.action_id === "settings.password");
  assert.equal(filled.data.parameters.value, "[REDACTED]");
});

withShop("a small screen shows everything, without scrolling sideways", { viewport: { width: 360, height: 740 }, colorScheme: "dark", reducedMotion: "reduce" }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  for (const name of ["home", "orders", "settings", "help"]) {
    await page.click(`nav a[href="#/${name}"]`);
    const { width, wide } = await page.evaluate(() => ({ width: innerWidth, wide: document.documentElement.scrollWidth }));
    assert.ok(wide <= width, `${name} is ${wide} wide`);
    for (const id of ["badge", "microphone", "talk", "say", "stop", "hang-up"]) {
      const box = await page.locator(`#${id}`).boundingBox();
      assert.ok(box && box.x >= 0 && box.x + box.width <= width, `${id} sticks out`);
    }
    await shop.screenshot(`narrow-${name}`);
  }
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
});

withShop("the colours of the states can be read in the light and in the dark", {}, async (shop) => {
  const { page } = shop;
  const contrasts = await page.evaluate(() => {
    const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const luminance = (hex) => [1, 3, 5].map((at) => channel(parseInt(hex.slice(at, at + 2), 16) / 255)).reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
    const found = {};
    for (const theme of ["light", "dark"]) {
      document.documentElement.dataset.theme = theme;
      const style = getComputedStyle(document.documentElement);
      const paper = luminance(style.getPropertyValue("--card"));
      for (const name of ["ink", "quiet", "accent", "not-connected", "connecting", "idle", "user-speaking", "ai-thinking", "ai-speaking", "invoke-action"]) {
        const colour = luminance(style.getPropertyValue(`--${name}`));
        found[`${theme} ${name}`] = (Math.max(paper, colour) + 0.05) / (Math.min(paper, colour) + 0.05);
      }
    }
    return found;
  });
  for (const [name, contrast] of Object.entries(contrasts)) assert.ok(contrast >= 4.5, `${name}: ${contrast.toFixed(2)}`);
});

withShop("events can be filtered, paused and looked into", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.fill("#log-filter", "state.");
  assert.deepEqual([...new Set(await page.locator("#log > li:visible .type").allInnerTexts())].sort(), ["state.ack", "state.changed", "state.update"]);
  await page.fill("#log-filter", "");
  await page.click("#log-pause");
  const before = await page.locator("#log > li").count();
  await shop.type("open the help page");
  await page.locator("#help-title").waitFor();
  assert.equal(await page.locator("#log > li").count(), before);
  await page.click("#log-pause");
  assert.ok((await page.locator("#log > li").count()) > before);
  await page.locator("#log > li[data-type='session.connected'] summary").click();
  const shown = await page.innerText("#log > li[data-type='session.connected'] pre");
  assert.match(shown, /"resume_token": "…"/);
});

withShop("a connection that breaks is picked up again by itself", {}, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.context().setOffline(true);
  await page.evaluate(() => window.breakSockets());
  await shop.state("not_connected");
  await page.context().setOffline(false);
  await shop.state("idle");
  const connected = await shop.events("session.connected");
  assert.deepEqual(connected.map((event) => event.data.resumed), [false, true]);
  await shop.type("open the orders page");
  await page.locator("#orders-title").waitFor();
  assert.equal(shop.problems.splice(0).every((problem) => /ERR_INTERNET_DISCONNECTED/.test(problem)), true);
});

withShop("over WebRTC it is the same shop", { says: [4, "please open the orders page", 120], query: "?transport=webrtc" }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.click("#microphone");
  await page.locator("#orders-title").waitFor();
  await shop.answer(/./);
  const [connected] = await shop.events("session.connected");
  assert.equal(connected.data.resumed, false);
});
