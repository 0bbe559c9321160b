/** One session, five protocols: the story from its beginning to its end, with everybody who takes part. */

import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { account, compare } from "./check.mjs";
import { Browser, Phone, Program, Terminal, lend } from "./clients.mjs";
import { Device, Server } from "./programs.mjs";
import { until } from "./witness.mjs";

const PEOPLE = { VIP: "a browser", AIP: "a device", Acolyte: "a terminal", ASP: "a program", Alicia: "a phone" };
/** What each of them has to have seen, by the number of the turn. */
const EXPECTED = { VIP: [1, 2, 3, 4], AIP: [1, 2, 3], Acolyte: [1, 2, 3, 4], ASP: [2, 3, 4], Alicia: [1, 2, 3, 4] };
const sentences = (text) => text.split(/[.!?]\s/).length - 1;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Tells the story on a server of its own. Answers what came of it: `problems` is empty if every client saw what is in
 * the log. With `keep`, the server is left running.
 */
export async function tell({ binary, models, screen, keep = false }) {
  const folder = await mkdtemp(path.join(tmpdir(), "switchboard-five-"));
  const server = new Server({ binary, models, folder });
  const cast = { device: new Device({ binary, folder, screen }) };
  const leave = () => {
    if (keep) return;
    server.process?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  // Also if somebody presses Ctrl-C.
  process.once("exit", leave);
  screen.title("One session, five protocols, and a kill -9", PEOPLE);
  try {
    const errors = await cast.device.fill();
    await server.start();
    screen.note(`a server listens on ${server.address}`);
    await cast.device.start(server.url);
    cast.browser = await Browser.open(server, screen, "please count the errors in the log file");
    const { session } = cast.browser;
    const turns = [];
    const next = async () => turns[turns.push(await server.nextTurn(session, turns)) - 1];

    // 1. The device is lent to the session, over AIP; the browser says so.
    const lent = await lend(server, screen, cast.device.id, session);
    await next();
    await until(() => cast.browser.announced[0]?.ends.length, "the browser says who is with us");
    await cast.browser.idle();

    // 2. Asked by voice, worked on by the device, watched by two, stopped by one of them.
    cast.terminal = await Terminal.open(server, screen);
    cast.terminal.attach(session, turns[0]);
    screen.act("Acolyte", "a terminal joins, and is told what was");
    await ended(cast.terminal, turns[0]);
    cast.program = await Program.open(server, screen);
    screen.act("ASP", "a program joins, to watch");
    await cast.browser.speak();
    const counted = await next();
    cast.browser.asked = counted;
    cast.terminal.attach(session, counted);
    void cast.program.watch(session, counted);
    const seen = () => [cast.browser.turns[0], cast.terminal.of(counted), cast.program.of(counted)];
    await until(() => seen().every((turn) => turn && sentences(turn.words) >= 2), "three of them see the answer");
    await cast.terminal.abort();
    await Promise.all([ended(cast.terminal, counted), ended(cast.program, counted), until(() => cast.browser.turns[0].ends.length, "the browser falls silent")]);
    await cast.browser.muteMicrophone();
    await cast.browser.idle();

    // 3. Asked by the program, cut by kill -9 in the middle of a sentence, taken up by everybody.
    cast.program.ask(session, "only the last one, please");
    const last = await next();
    cast.terminal.attach(session, last);
    await until(() => [cast.terminal, cast.program].every((one) => sentences(one.of(last).words) >= 2), "two of them see the answer");
    await pause(600);
    screen.strike(`kill -9 ${server.process.pid}`);
    await server.kill();
    await pause(700);
    await server.start();
    screen.note(`the server is started again, as ${server.process.pid}`);
    await cast.program.resume(server);
    screen.act("ASP", "the program is back, after its last record");
    await cast.terminal.connect(server);
    cast.terminal.attach(session, last);
    screen.act("Acolyte", "the terminal is back, after its last position");
    cast.phone = await Phone.open(server, screen, session);
    await until(() => cast.phone.question, "the agent asks");
    await cast.device.comesOnline();
    await cast.browser.idle();
    screen.note(`the agent asks: “${cast.phone.question.parameters.text}”`);
    cast.phone.reply("yes");
    await Promise.all([ended(cast.terminal, last), ended(cast.program, last), ended(cast.phone, last)]);
    await until(() => cast.browser.announced[1], "the browser says what the others were told");
    await pause(1500);
    await cast.browser.hush();
    await cast.browser.idle();

    // 4. The phone has the last word.
    cast.phone.ask("thank you, that is all");
    const thanks = await next();
    cast.terminal.attach(session, thanks);
    await Promise.all([cast.program.watch(session, thanks), cast.phone.asks(thanks), ended(cast.terminal, thanks)]);
    await until(() => cast.phone.of(cast.phone.answer).ends.length, "the phone is answered");
    await until(() => cast.browser.announced[2]?.ends.length, "the browser says that, too");

    const log = account(await server.events(session));
    const result = compare(log, cast, { lent, expected: EXPECTED });
    if (!log.turns[1].words.includes(` ${errors} errors`)) result.problems.push(`there are ${errors} errors in the log of the device: ${log.turns[1].words}`);
    if (cast.phone.failed) result.problems.push(`Alicia: ${cast.phone.failed.message}`);
    screen.table(result);
    return { ...result, session, server };
  } catch (error) {
    screen.flush(true);
    error.message += `\n${await server.log()}`;
    throw error;
  } finally {
    await cast.browser?.close().catch(() => undefined);
    for (const one of [cast.terminal, cast.program, cast.phone]) one?.close();
    cast.device.stop();
    process.off("exit", leave);
    if (!keep) await server.kill();
    leave();
  }
}

function ended(witness, turn) {
  return until(() => witness.of(turn).ends.length, `${witness.lane} sees the end`);
}
