/** The demo application in internal mode: its sound goes to a provider, which here is a house of the same server. */

import assert from "node:assert/strict";
import { shopStories } from "./support/story.mjs";

const { withShop } = shopStories(['vip.providers=[{id="house",adapter="vip-native",transport="websocket",model="butler",production=false}]']);

withShop("vip_087 what is said to a provider is reported to the server, step by step", { says: [2.5, "please open the orders page", 120], query: "?mode=internal" }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.click("#microphone");
  await page.locator("#orders-title").waitFor();
  await shop.answer(/./);
  assert.ok((await shop.loudMs()) > 300, `heard for ${await shop.loudMs()} ms`);
  const reports = (await shop.events("state.report")).map(({ data }) => data.state);
  assert.deepEqual(reports, ["user_speaking", "ai_thinking", "invoke_action", "ai_thinking", "ai_speaking", "idle"]);
  assert.deepEqual(await shop.events("error.recoverable"), []);
});

withShop("a sensitive action needs a yes there too", { query: "?mode=internal" }, async (shop) => {
  const { page } = shop;
  await shop.connect();
  await page.click("nav a[href='#/orders']");
  await shop.type("cancel the order");
  await page.getByRole("button", { name: "No, leave it" }).click();
  await shop.answer(/./);
  assert.equal(await page.locator(".order[data-status='on its way']").count(), 1);
});
