// An agent as a Cloudflare Worker; Bun and Deno serve it as it is: bun run worker.mjs
import { agent } from "@switchboard/functions";

let handler;
export default {
  fetch(request, env = globalThis.process?.env ?? {}) {
    handler ??= agent({ secret: env.FUNCTION_SECRET }, async function* (turn) {
      yield { status: "thinking" };
      if (/which/i.test(turn.text)) {
        yield `You chose ${await turn.ask("Red or blue?")}.`;
        return;
      }
      for (const word of turn.text.split(/(?<= )/)) yield word.toUpperCase();
    });
    return handler(request);
  },
};
