/** Every event that comes and goes, to look at. */

import type { Traffic } from "@switchboard/vip";
import { get, make } from "./shop.js";

const MAX_ENTRIES = 500;

export class EventLog {
  private readonly list = get("log");
  private paused = false;
  private waiting: Traffic[] = [];
  private shown: Traffic[] = [];

  constructor() {
    get("log-filter").addEventListener("input", () => this.filter());
    get("log-pause").addEventListener("click", () => {
      this.paused = !this.paused;
      get("log-pause").setAttribute("aria-pressed", String(this.paused));
      get("log-pause").textContent = this.paused ? "Go on" : "Pause";
      if (!this.paused) for (const traffic of this.waiting.splice(0)) this.show(traffic);
      this.count();
    });
    get("log-clear").addEventListener("click", () => {
      this.shown = [];
      this.list.replaceChildren();
      this.count();
    });
    get("log-copy").addEventListener("click", () => void this.copy());
    // On a narrow screen the shop comes first.
    if (matchMedia("(max-width: 60rem)").matches) get<HTMLDetailsElement>("log-panel").open = false;
  }

  add(traffic: Traffic): void {
    if (this.paused) {
      this.waiting.push(traffic);
      if (this.waiting.length > MAX_ENTRIES) this.waiting.shift();
    } else {
      this.show(traffic);
    }
    this.count();
  }

  private show(traffic: Traffic): void {
    const { direction, event } = traffic;
    const follow = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    const item = make("li", "");
    item.dataset.direction = direction;
    item.dataset.type = event.type;
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    const arrow = make("span", direction === "in" ? "↓" : "↑", "arrow");
    arrow.setAttribute("aria-label", direction === "in" ? "received" : "sent");
    arrow.setAttribute("role", "img");
    summary.append(arrow, make("span", event.type, "type"), make("span", brief(traffic), "brief"), make("span", `${event.seq}·${event.state_seq}`, "numbers"));
    summary.title = `${direction === "in" ? "Received" : "Sent"}, event ${event.seq}, state ${event.state_seq}`;
    details.append(summary);
    // Written out only for those who look.
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(make("pre", JSON.stringify(event, hideSecrets, 2)));
    });
    item.append(details);
    item.hidden = !this.fits(item);
    this.list.append(item);
    this.shown.push(traffic);
    while (this.shown.length > MAX_ENTRIES) {
      this.shown.shift();
      this.list.firstElementChild?.remove();
    }
    if (follow) this.list.scrollTop = this.list.scrollHeight;
  }

  private fits(item: HTMLElement): boolean {
    return (item.dataset.type ?? "").includes(get<HTMLInputElement>("log-filter").value.trim().toLowerCase());
  }

  private filter(): void {
    for (const item of this.list.children) (item as HTMLElement).hidden = !this.fits(item as HTMLElement);
  }

  private count(): void {
    const waiting = this.waiting.length ? `, ${this.waiting.length} waiting` : "";
    get("log-count").textContent = `${this.shown.length}${waiting}`;
  }

  private async copy(): Promise<void> {
    const lines = this.shown.map(({ direction, event }) => JSON.stringify({ direction, ...event }, hideSecrets));
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
    } catch {
      said = "Not allowed";
    }
    get("log-copy").textContent = said;
    setTimeout(() => (get("log-copy").textContent = "Copy"), 1500);
  }
}

/** One word about what an event carries. */
function brief({ event }: Traffic): string {
  const data = event.data as { [name: string]: unknown };
  const word = data.state ?? data.action_id ?? data.code ?? data.trigger ?? data.reason ?? data.status ?? data.text ?? data.mode ?? "";
  return String(word).slice(0, 40);
}

/** What is looked at may be copied elsewhere; passwords and tokens should not be. */
function hideSecrets(name: string, value: unknown): unknown {
  if (name === "resume_token" || name === "session_token") return "…";
  const field = value as { input_type?: unknown } | null;
  return typeof field === "object" && field?.input_type === "password" && "value" in field ? { ...field, value: "[REDACTED]" } : value;
}
