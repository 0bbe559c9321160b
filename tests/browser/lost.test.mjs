/** What a page notices when the server is gone without a word, and that what is in the way can be put away. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "./support/server.mjs";
import { openShop } from "./support/shop.mjs";

test("vip_094 over WebRTC a server that is killed is missed within three seconds", { timeout: 120_000 }, async () => {
  // The server carries the demo, so it is of the same build as the module.
  const server = await startServer();
  const shop = await openShop(server, { query: "?transport=webrtc" });
  try {
    await shop.connect();
    await shop.state("idle");
    // A while of silence is no loss.
    await shop.page.waitForTimeout(4000);
    assert.equal(await shop.page.getAttribute(".dock", "data-state"), "idle");
    await server.stop();
    await shop.page.waitForFunction(() => document.querySelector(".dock").dataset.state !== "idle", undefined, { timeout: 3000 });
  } finally {
    await shop.close();
    await server.stop();
  }
});

test("the panel of events collapses, on a phone from the start", { timeout: 60_000 }, async () => {
  const server = await startServer();
  for (const [viewport, open] of [[{ width: 1280, height: 860 }, true], [{ width: 390, height: 840 }, false]]) {
    const shop = await openShop(server, { viewport });
    try {
      const { page } = shop;
      const shown = () => page.locator("#log-filter").isVisible();
      assert.equal(await shown(), open);
      await page.locator("#log-panel > summary").click();
      assert.equal(await shown(), !open);
      await page.locator("#log-panel > summary").click();
      assert.equal(await shown(), open);
    } finally {
      await shop.close();
    }
  }
  await server.stop();
});
