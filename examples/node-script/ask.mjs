// Asks an agent one thing and prints the answer as it comes: node ask.mjs "Where shall we go?"
import { createClient, tool } from "@switchboard/client";
import WebSocket from "ws"; // Node 22 and newer have one of their own

const clock = tool({ name: "clock", description: "The time on this machine", input: { type: "object" }, run: () => new Date().toISOString() });
const client = createClient({ url: process.env.SWITCHBOARD_URL ?? "http://127.0.0.1:4600", token: process.env.SWITCHBOARD_TOKEN, WebSocket, tools: [clock] });

try {
  for await (const piece of client.session("script").ask(process.argv.slice(2).join(" ")).textStream()) process.stdout.write(piece);
  process.stdout.write("\n");
} catch (error) {
  console.error(`${error.message}\n${error.advice ?? ""}`);
  process.exitCode = 1;
} finally {
  await client.close();
}
