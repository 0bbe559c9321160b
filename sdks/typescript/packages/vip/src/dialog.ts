/** The question before something sensitive: a modal dialog that keyboards and screen readers know. */

import type { ConfirmationRequest } from "./actions.js";

export interface DialogWords {
  confirm?: string;
  cancel?: string;
}

/** Asks in a dialog of class `vip-confirm`; true if the answer is yes. Whatever closes it otherwise is a no. */
export function confirmInDialog(request: ConfirmationRequest, words: DialogWords = {}): Promise<boolean> {
  const dialog = document.createElement("dialog");
  dialog.className = "vip-confirm";
  // It covers the page for a moment only, and is no part of what is told about it.
  dialog.dataset.vipIgnore = "";
  dialog.setAttribute("role", "alertdialog");
  dialog.setAttribute("aria-labelledby", "vip-confirm-prompt");
  dialog.setAttribute("aria-describedby", "vip-confirm-details");

  const prompt = element("h2", request.prompt);
  prompt.id = "vip-confirm-prompt";
  const details = document.createElement("dl");
  details.id = "vip-confirm-details";
  details.append(...row("Action", request.action.description));
  for (const [name, value] of Object.entries(request.parameters)) {
    if (name === "element_id" || name === "input_type") continue;
    const shown = request.action.input_type === "password" ? "••••" : typeof value === "string" ? value : JSON.stringify(value);
    details.append(...row(name.replaceAll("_", " "), shown));
  }
  const no = button(words.cancel ?? "No, leave it", "no");
  const yes = button(words.confirm ?? "Yes, do it", "yes");
  const buttons = element("div", "");
  buttons.className = "vip-confirm-buttons";
  buttons.append(no, yes);
  dialog.append(prompt, details, buttons);

  return new Promise((resolve) => {
    const close = () => dialog.close("no");
    dialog.addEventListener("close", () => {
      request.signal.removeEventListener("abort", close);
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    no.addEventListener("click", () => dialog.close("no"));
    yes.addEventListener("click", () => dialog.close("yes"));
    request.signal.addEventListener("abort", close);
    document.body.append(dialog);
    dialog.showModal();
    // The harmless answer is the one under the finger.
    no.focus();
  });
}

function row(name: string, value: string): HTMLElement[] {
  return [element("dt", name), element("dd", value)];
}

function element(tag: string, text: string): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function button(text: string, answer: string): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.dataset.answer = answer;
  return made;
}
