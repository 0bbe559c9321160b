// A chat in the terminal: lines go to the agent, Ctrl-C stops an answer, a second one leaves. A lost connection is said, and
// what was being said goes on.
import { createInterface } from "node:readline";
import { createClient } from "@switchboard/client";
import WebSocket from "ws";

const client = createClient({ url: process.env.SWITCHBOARD_URL ?? "http://127.0.0.1:4600", token: process.env.SWITCHBOARD_TOKEN, WebSocket });
const session = client.session(process.argv[2] ?? "terminal");
client.on("state", (state) => state !== "closed" && console.error(`[${state}${client.error && state !== "online" ? `: ${client.error.advice}` : ""}]`));

const input = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
let turn;
input.on("SIGINT", () => (turn ? turn.stop() : input.close()));
for (const { role, text } of await session.history({ limit: 20 }).catch(() => [])) console.log(role === "user" ? `> ${text}` : text);

input.prompt();
for await (const line of input) {
  if (line.trim()) {
    turn = session.ask(line);
    try {
      for await (const event of turn) {
        if (event.type === "text") process.stdout.write(event.text);
        else if (event.type === "restarted") process.stdout.write("\n[once more]\n");
        else if (event.type === "tool" && event.phase === "start") process.stdout.write(`[${event.name}] `);
        else if (event.type === "question") await event.question.answer(await new Promise((resolve) => input.question(`${event.question.text} `, resolve)));
        else if (event.type === "approval") await ((await new Promise((resolve) => input.question(`${event.approval.text} (yes/no) `, resolve))) === "yes" ? event.approval.approve() : event.approval.deny());
      }
      process.stdout.write(turn.status === "interrupted" ? " [stopped]\n" : "\n");
    } catch (error) {
      console.error(`${error.message}. ${error.advice}`);
    }
    turn = undefined;
  }
  input.prompt();
}
await client.close();
