/** The voice controls below the page: the state, the microphone, the keyboard, and who said what. */

import type { Caption, State, VoiceApp } from "@switchboard/vip";
import { LOOKS, sign } from "./badge.js";
import { get, make } from "./shop.js";

const MAX_CAPTIONS = 40;

export class Dock {
  private readonly captions = get("captions");
  private readonly spoken = new Map<string, HTMLElement>();

  constructor(private readonly voice: VoiceApp) {
    this.show("not_connected");
    this.buttons();
    this.keys();
    voice.on("state", ({ state }) => this.show(state));
    voice.on("caption", (caption) => this.caption(caption));
    voice.on("error", ({ code, message }) => this.notice(`${message} (${code})`));
    voice.on("hearing", ({ levelDb }) => get("microphone").style.setProperty("--level", String(Math.max(0, Math.min(1, (levelDb + 60) / 50)))));
    voice.on("reconnecting", ({ delayMs }) => this.notice(`The connection is gone. Trying again in ${(delayMs / 1000).toFixed(1)} s.`));
    voice.on("connected", ({ resumed }) => {
      this.notice(resumed ? "Back where we were." : "");
      if (resumed && !this.spoken.size) void this.recall();
    });
    voice.on("ending", ({ inMs }) => this.notice(`The session ends in ${Math.round(inMs / 1000)} seconds unless you say something.`));
    voice.on("ended", ({ code, reason, error }) => {
      const why = error?.message ?? (code === 1000 ? "" : reason);
      this.notice(why ? `The session is over: ${why}` : "The session is over.");
    });
    voice.on("microphone", ({ open, error }) => {
      get("microphone").setAttribute("aria-pressed", String(open));
      if (error) this.notice("There is no microphone to be had. You can type instead.");
      if (error) get("say").focus();
    });
  }

  private show(state: State): void {
    const look = LOOKS[state];
    const dock = document.querySelector<HTMLElement>(".dock");
    if (dock) dock.dataset.state = state;
    get("badge-icon").replaceChildren(sign(state));
    get("badge-text").textContent = look.word;
    get("announce").textContent = look.says;
    const connected = state !== "not_connected" && state !== "connecting";
    get<HTMLButtonElement>("connect").hidden = state !== "not_connected";
    for (const id of ["microphone", "talk", "say", "say-send"]) get<HTMLButtonElement>(id).disabled = !connected;
    get<HTMLButtonElement>("hang-up").disabled = state === "not_connected";
    get<HTMLButtonElement>("stop").disabled = !["user_speaking", "ai_thinking", "ai_speaking"].includes(state);
    if (state === "user_speaking") this.notice("");
  }

  private buttons(): void {
    const { voice } = this;
    get("connect").addEventListener("click", () => {
      this.notice("");
      void voice.unlockAudio().catch(() => this.notice("Sound cannot be played here; everything is written below."));
      voice.start().catch((error: Error) => this.notice(error.message));
    });
    get("microphone").addEventListener("click", () => void (voice.listening ? voice.closeMicrophone() : voice.openMicrophone()));
    get("stop").addEventListener("click", () => voice.interrupt());
    get("hang-up").addEventListener("click", () => void voice.hangUp());
    get("say-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = get<HTMLInputElement>("say");
      voice.say(field.value);
      field.value = "";
    });
    const talk = get("talk");
    talk.addEventListener("pointerdown", (event) => {
      talk.setPointerCapture(event.pointerId);
      this.press();
    });
    for (const name of ["pointerup", "pointercancel", "blur"]) talk.addEventListener(name, () => this.release());
  }

  private keys(): void {
    const talks = (event: KeyboardEvent) =>
      event.code === "Space" && (event.target === get("talk") || !(event.target as Element).closest?.("input, textarea, button, summary, a, dialog, [tabindex='0']"));
    addEventListener("keydown", (event) => {
      const typing = (event.target as Element).closest?.("input, textarea");
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.voice.interrupt();
      else if (event.key === "/" && !typing && !get<HTMLInputElement>("say").disabled) {
        event.preventDefault();
        get("say").focus();
      } else if (talks(event)) {
        event.preventDefault();
        if (!event.repeat) this.press();
      }
    });
    addEventListener("keyup", (event) => {
      if (!talks(event)) return;
      event.preventDefault();
      this.release();
    });
    // A key that is let go elsewhere is never heard of.
    addEventListener("blur", () => this.release());
  }

  private press(): void {
    if (get<HTMLButtonElement>("talk").disabled) return;
    get("talk").classList.add("held");
    void this.voice.press();
  }

  private release(): void {
    get("talk").classList.remove("held");
    this.voice.release();
  }

  private caption({ role, id, text, final, interrupted }: Caption): void {
    let line = this.spoken.get(id);
    if (!line) {
      line = make("p", "", role);
      line.append(make("b", role === "user" ? "You" : "Shop"), make("span", ""));
      this.spoken.set(id, line);
      this.captions.append(line);
      while (this.captions.childElementCount > MAX_CAPTIONS) this.captions.firstElementChild?.remove();
      if (this.spoken.size > MAX_CAPTIONS) this.spoken.delete(this.spoken.keys().next().value ?? "");
    }
    line.classList.toggle("partial", !final);
    line.classList.toggle("interrupted", interrupted === true);
    const words = line.querySelector("span");
    if (words) words.textContent = interrupted ? `${text} —` : text;
    this.captions.scrollTop = this.captions.scrollHeight;
  }

  /** What was said before the page was loaded again. */
  private async recall(): Promise<void> {
    const items = await this.voice.history().catch(() => []);
    for (const { kind, role, id, text, status, turn_id: turn, response_id: response } of items) {
      if (kind !== "message" || role === "system" || !text) continue;
      this.caption({ role, id: (role === "user" ? turn : response) ?? id, text, final: true, interrupted: status === "incomplete" });
    }
  }

  private notice(text: string): void {
    get("notice").textContent = text;
  }
}
