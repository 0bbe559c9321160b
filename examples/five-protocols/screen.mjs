/** What is shown: one lane per protocol, and one line for what happens at one time in any of them. */

export const LANES = ["VIP", "AIP", "Acolyte", "ASP", "Alicia"];
const COLOURS = { VIP: 35, AIP: 33, Acolyte: 36, ASP: 32, Alicia: 94 };
const HEADS = { VIP: "VIP", AIP: "AIP", Acolyte: "Aco", ASP: "ASP", Alicia: "Ali" };
const [DIM, BOLD, RED, GREEN] = [2, 1, 31, 32];
/** How long a line waits for others who are told the same. */
const PATIENCE_MS = 1500;
const WIDTH = 78;
const MARGIN = 28;

export class Screen {
  connected = new Set();
  followers = new Map();
  shown = new Map();
  queue = [];

  /** `write` takes a line, and the seconds since the beginning. */
  constructor({ write, colour = true }) {
    Object.assign(this, { write, colour, began: performance.now() });
  }

  paint(code, text) {
    return this.colour && text ? `\x1b[${code}m${text}\x1b[0m` : text;
  }

  /** The name of a lane, in its colour. */
  name(lane, text = lane) {
    return this.paint(COLOURS[lane], text);
  }

  seconds() {
    return (performance.now() - this.began) / 1000;
  }

  /** What it is all about, and who is who. */
  title(text, people) {
    this.line(this.paint(BOLD, text));
    this.line(Object.entries(people).map(([lane, who]) => `${this.name(lane)} ${this.paint(DIM, who)}`).join("  "));
    this.line("");
    const heads = LANES.map((lane) => this.name(lane, HEADS[lane])).join(" ");
    this.line(`${" ".repeat(8)}${heads}  ${this.paint(DIM, "● does something  ○ is told  ✕ is cut off")}`);
  }

  connect(lane) {
    this.connected.add(lane);
  }

  disconnect(lane) {
    this.connected.delete(lane);
    for (const lanes of this.followers.values()) lanes.delete(lane);
  }

  /** A client does something. */
  act(lane, text) {
    this.enter({ lanes: new Map([[lane, "●"]]), text: this.name(lane, text) });
  }

  /** Something happens to all of them. */
  strike(text) {
    this.enter({ lanes: new Map(LANES.filter((lane) => this.connected.has(lane)).map((lane) => [lane, "✕"])), text: this.paint(`${BOLD};${RED}`, text) });
  }

  note(text) {
    this.enter({ lanes: new Map(), text: this.paint(DIM, text) });
  }

  /** A client is told of a turn from now on, or no more. */
  follow(lane, turn) {
    if (!this.followers.has(turn)) this.followers.set(turn, new Set());
    this.followers.get(turn).add(lane);
  }

  leave(lane, turn, words) {
    this.words(lane, turn, `${words} `, true);
    this.followers.get(turn)?.delete(lane);
  }

  /** What a client has been told of an answer so far; whole sentences are shown, once for all who see them. */
  words(lane, turn, text, over = false) {
    const flat = text.replace(/\s+/g, " ");
    const ends = [...flat.matchAll(/[.!?](?= )/g)].map((found) => found.index + 1);
    if (over && flat.trim() && ends.at(-1) !== flat.trimEnd().length) ends.push(flat.trimEnd().length);
    const known = this.shown.get(turn) ?? [];
    this.shown.set(turn, known);
    ends.forEach((end, index) => {
      if (!known[index]) {
        const sentence = flat.slice(ends[index - 1] ?? 0, end).trim();
        known[index] = { lanes: new Map(), text: sentence, turn, due: performance.now() + PATIENCE_MS };
        this.enter(known[index]);
      }
      known[index].lanes.set(lane, "○");
    });
    this.flush();
  }

  enter(row) {
    this.queue.push({ at: this.seconds(), row });
    this.flush();
  }

  /** Shows what needs not wait for anybody, or has waited long enough. */
  flush(all = false) {
    clearTimeout(this.timer);
    while (this.queue.length) {
      const [{ at, row }] = this.queue;
      const everybody = [...(this.followers.get(row.turn) ?? [])].every((lane) => row.lanes.has(lane));
      if (!all && row.due && !everybody && performance.now() < row.due) {
        this.timer = setTimeout(() => this.flush(), row.due - performance.now() + 1);
        return;
      }
      this.queue.shift();
      this.row(at, row);
    }
  }

  row(at, { lanes, text }) {
    const lane = (name) => {
      const mark = lanes.get(name);
      if (mark === "✕") return this.paint(RED, mark);
      return mark ? this.name(name, mark) : this.paint(DIM, this.connected.has(name) ? "│" : " ");
    };
    const [code, plain] = /^\x1b\[([\d;]+)m(.*)\x1b\[0m$/s.exec(text)?.slice(1) ?? [undefined, text];
    wrap(plain, WIDTH - MARGIN).forEach((piece, index) => {
      const time = index ? "" : at.toFixed(1);
      const marks = index ? LANES.map((name) => this.paint(DIM, this.connected.has(name) ? "│" : " ")) : LANES.map(lane);
      this.line(`${this.paint(DIM, time.padStart(5))}    ${marks.join("   ")}   ${code ? this.paint(code, piece) : piece}`, at);
    });
  }

  /** The end: who saw what. */
  table({ rows, problems, summary }) {
    this.flush(true);
    const cell = (text, width) => text.padEnd(width);
    this.line("");
    this.line(`${this.paint(DIM, "  turn  by       ")}${LANES.map((lane) => this.name(lane, cell(lane, 9))).join("")}${this.paint(DIM, "ends  how")}`);
    for (const { number, protocol, cells, ends, outcome, right } of rows) {
      const marks = LANES.map((lane) => {
        const text = cells[lane];
        return this.paint(text === "≠" ? RED : text === "–" ? DIM : GREEN, cell(text, 9));
      });
      this.line(`  ${cell(String(number), 6)}${this.name(protocol, cell(protocol, 9))}${marks.join("")}${this.paint(right ? GREEN : RED, cell(String(ends), 6))}${outcome}`);
    }
    this.line("");
    for (const problem of problems) for (const piece of wrap(problem, WIDTH - 4)) this.line(this.paint(RED, `  ✗ ${piece}`));
    if (!problems.length) for (const piece of summary) this.line(this.paint(GREEN, `  ✓ ${piece}`));
  }

  line(text, at = this.seconds()) {
    this.write(text, at);
  }
}

function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last && last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}
