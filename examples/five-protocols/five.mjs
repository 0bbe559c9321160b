/** Shows the story in a terminal; `run` beside it prepares everything that this needs. */

import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { Screen } from "./screen.mjs";
import { tell } from "./story.mjs";

const { values } = parseArgs({ options: { keep: { type: "boolean" }, record: { type: "string" } } });
const { SERVER_BINARY: binary, VOICE_MODELS: models } = process.env;
const recording = [];
const colour = values.record !== undefined || Boolean(process.stdout.isTTY && !process.env.NO_COLOR);
const screen = new Screen({
  colour,
  write(line, at) {
    recording.push({ at: Math.round(at * 1000) / 1000, line });
    process.stdout.write(`${line}\n`);
  },
});

try {
  const { problems, session, server } = await tell({ binary, models, screen, keep: values.keep });
  if (values.record) await writeFile(values.record, recording.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
  if (values.keep) {
    console.log(`\nThe server is left at ${server.url}; its data is in ${server.folder}.`);
    console.log(`  ${binary} sessions show ${session} --url ${server.url}`);
    console.log(`  kill ${server.process.pid}`);
  }
  process.exit(problems.length ? 1 : 0);
} catch (error) {
  console.error(`\nfive-protocols: ${error.message}`);
  process.exit(1);
}
