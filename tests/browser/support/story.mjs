/** Stories: tests with a shop of their own, in front of one server for the whole file. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer } from "./server.mjs";
import { openShop } from "./shop.mjs";

/** Returns `withShop`, which tells one story, and where the demo is. */
export function shopStories(settings) {
  let server;
  before(async () => (server = await startServer(settings)));
  after(() => server?.stop());
  const withShop = (name, options, story) =>
    test(name, async () => {
      const shop = await openShop(server, options);
      try {
        await story(shop);
        assert.deepEqual(shop.problems, []);
      } catch (error) {
        await shop.screenshot(`failed-${name.replace(/\W+/g, "-").slice(0, 60)}`);
        error.message += await whatHappened(shop);
        throw error;
      } finally {
        await shop.close();
      }
    });
  return { withShop, demo: () => `${server.url}/demo/vip/` };
}

async function whatHappened(shop) {
  const [captions, notice] = await Promise.all(["#captions", "#notice"].map((id) => shop.page.innerText(id)));
  return `\nstates: ${(await shop.states()).join(" ")}\ncaptions: ${captions}\nnotice: ${notice}`;
}
