/**
 * Makes a moving picture of a recording, as it was seen and as long as it took:
 *
 *   node examples/five-protocols/picture.mjs RECORDING >docs/images/five-protocols.svg
 */

import { readFile } from "node:fs/promises";

const [CHARACTER, LINE, MARGIN, HOLD_S] = [8.4, 19, 18, 8];
const COLOURS = { 2: "d", 31: "r", 32: "g", 33: "y", 35: "m", 36: "c", 94: "b", 1: "s", "1;31": "s r" };
const STYLE = `text{font:14px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}
.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.m{fill:#d2a8ff}.c{fill:#56d4dd}.b{fill:#79c0ff}.s{font-weight:700}`;

const escape = (text) => text.replace(/[&<>]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[letter]);
const round = (number) => Math.round(number * 100) / 100;

/** A line as pieces of one colour, each with the column in which it begins. */
function pieces(line) {
  const found = [];
  let [column, colour] = [0, ""];
  for (const part of line.split(/(\x1b\[[\d;]+m)/)) {
    const code = /^\x1b\[([\d;]+)m$/.exec(part)?.[1];
    if (code !== undefined) colour = COLOURS[code] ?? "";
    else {
      const letters = [...part];
      const blank = letters.findIndex((letter) => letter !== " ");
      if (blank >= 0) found.push({ column: column + blank, colour, text: letters.slice(blank).join("").trimEnd() });
      column += letters.length;
    }
  }
  return found;
}

/** The picture of lines `{ at, line }`. */
export function picture(lines) {
  const length = lines.at(-1).at + HOLD_S;
  const columns = Math.max(...lines.flatMap(({ line }) => pieces(line).map(({ column, text }) => column + [...text].length)));
  const [width, height] = [Math.ceil(columns * CHARACTER + 2 * MARGIN), lines.length * LINE + 2 * MARGIN];
  // Lines that come together share one animation.
  const moments = [...new Set(lines.map(({ at }) => round((at / length) * 100)))];
  const frames = moments.map((moment, index) => (moment < 0.5 ? "" : `@keyframes k${index}{from{opacity:0}${moment}%,to{opacity:1}}.k${index}{animation:k${index} ${round(length)}s step-end infinite}`));
  const drawn = lines.map(({ at, line }, row) => {
    const spans = pieces(line).map(({ column, colour, text }) => `<tspan x="${round(MARGIN + column * CHARACTER)}"${colour ? ` class="${colour}"` : ""}>${escape(text)}</tspan>`);
    const moment = round((at / length) * 100);
    return spans.length ? `<text y="${MARGIN + row * LINE + 14}"${moment < 0.5 ? "" : ` class="k${moments.indexOf(moment)}"`}>${spans.join("")}</text>` : "";
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>A recording of examples/five-protocols/run</title>
<style>${STYLE}
@media (prefers-reduced-motion:no-preference){${frames.join("\n")}}</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
${drawn.filter(Boolean).join("\n")}
</svg>
`;
}

const lines = (await readFile(process.argv[2], "utf8")).trim().split("\n").map((line) => JSON.parse(line));
process.stdout.write(picture(lines));
