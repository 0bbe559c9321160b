/** What each state looks like: a shape, an icon, a word and a colour of its own, so that none is needed to tell them apart. */

import type { State } from "@switchboard/vip";

interface Look {
  word: string;
  /** What a screen reader says when it begins. */
  says: string;
  /** Drawn in a box of 32 by 32. */
  shape: string;
  icon: string;
}

export const LOOKS: { readonly [State_ in State]: Look } = {
  not_connected: {
    word: "Not connected",
    says: "Not connected",
    shape: "M5 5h22v22H5z",
    icon: "M11 11l10 10M21 11L11 21",
  },
  connecting: {
    word: "Connecting",
    says: "Connecting",
    shape: "M16 3a13 13 0 1 1 0 26 13 13 0 0 1 0-26z",
    icon: "M16 10v6l4 3",
  },
  idle: {
    word: "Ready",
    says: "Ready",
    shape: "M16 3a13 13 0 1 1 0 26 13 13 0 0 1 0-26z",
    icon: "M10 16l4 4 8-8",
  },
  user_speaking: {
    word: "Listening",
    says: "Listening",
    shape: "M11 2h10a9 9 0 0 1 9 9v10a9 9 0 0 1-9 9H11a9 9 0 0 1-9-9V11a9 9 0 0 1 9-9z",
    icon: "M16 8a3 3 0 0 1 3 3v4a3 3 0 0 1-6 0v-4a3 3 0 0 1 3-3zM10 15a6 6 0 0 0 12 0M16 21v3",
  },
  ai_thinking: {
    word: "Thinking",
    says: "Thinking",
    shape: "M16 1l15 15-15 15L1 16z",
    icon: "M10 16h.01M16 16h.01M22 16h.01",
  },
  ai_speaking: {
    word: "Speaking",
    says: "The assistant speaks",
    shape: "M6 4h20a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H15l-7 6v-6H6a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4z",
    icon: "M9 12v4M13 9v10M17 11v6M21 8v12M25 12v4",
  },
  invoke_action: {
    word: "Acting",
    says: "Doing it",
    shape: "M9.5 2.5h13L29.5 9.5v13l-7 7h-13l-7-7v-13z",
    icon: "M17 7l-7 10h5l-1 8 8-11h-5z",
  },
};

/** The sign of a state. */
export function sign(state: State): SVGSVGElement {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("viewBox", "0 0 32 32");
  for (const [name, path] of [["shape", LOOKS[state].shape], ["icon", LOOKS[state].icon]] as const) {
    const drawn = document.createElementNS(namespace, "path");
    drawn.setAttribute("class", name);
    drawn.setAttribute("d", path);
    svg.append(drawn);
  }
  return svg;
}
