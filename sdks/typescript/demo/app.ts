/** The Corner Shop with a voice: all that a page has to do for it is in this file. */

import { VoiceApp } from "@switchboard/vip";
import { Dock } from "./dock.js";
import { EventLog } from "./log.js";
import { PAGES, Shop } from "./shop.js";

const shop = new Shop();
shop.open();

const query = new URLSearchParams(location.search);
const voice = new VoiceApp({
  appId: "corner-shop",
  environment: "development",
  mode: query.get("mode") === "internal" ? "internal" : "external",
  locale: "en-US",
  transport: query.get("transport") === "webrtc" ? "webrtc" : "websocket",
  workletUrl: new URL("worklet.js", location.href),
  root: document.querySelector<HTMLElement>(".shop") ?? document.body,
  // Where the person is, where they can go, and what they would see.
  route: () => ({ id: shop.page(), path: `#/${shop.page()}`, title: shop.title(shop.page()) }),
  routes: () => PAGES.map((page) => ({ target: page, title: shop.title(page) })),
  narrate: () => shop.describe(),
  navigate: (target) => shop.goTo(target),
});

const log = new EventLog();
voice.on("traffic", (traffic) => log.add(traffic));
new Dock(voice);

// A page that is loaded again goes on with its session.
if (voice.resumable) voice.start().catch(() => undefined);
