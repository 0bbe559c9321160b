/** What one client has seen: the turns in their order, the words of each, and how often each ended. */

export class Witness {
  /** In the order in which the client learned of them. */
  turns = [];

  constructor(lane, screen) {
    Object.assign(this, { lane, screen });
  }

  /** What is known of a turn, under the name that the client has for it. */
  of(name) {
    let known = this.turns.find((turn) => turn.name === name);
    if (!known) this.turns.push((known = { name, turn: name, words: "", calls: [], ends: [] }));
    return known;
  }

  /** The client begins to follow a turn. */
  follow(name) {
    this.screen.follow(this.lane, this.of(name).turn);
  }

  /** More was said. */
  say(name, text) {
    const known = this.of(name);
    known.words += text;
    this.screen.words(this.lane, known.turn, known.words);
  }

  /** A tool is used. */
  call(name, tool) {
    this.of(name).calls.push(tool);
  }

  end(name, how) {
    const known = this.of(name);
    known.ends.push(how);
    this.screen.leave(this.lane, known.turn, known.words);
  }
}

/** Looks again and again, until something is there. */
export async function until(look, what, patience = 30_000) {
  const deadline = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`waited ${patience / 1000} s for this in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
