// The page: an equation editor with what its text means; beside it, where a server of ours is, training and writing.

import { Answer, Ask, inBrowser, keyOfLink, ofServer } from "./asking";
import { Course } from "./course";
import { byId, el, picture } from "./dom";
import { Editor, knowWords } from "./editor";
import { studio } from "./studio";

const FIRST = "x = x + attention(norm(x))\nx = x + mlp(norm(x))";
const SLIDERS: Record<string, number[]> = {
  depth: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64],
  width: [64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096],
  heads: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
  context: [32, 64, 128, 256, 512, 1024, 2048, 4096],
};
const WAIT = 250; // milliseconds without a key before a text is read

const local = document.body.dataset.mode === "server";

/** A text and numbers as a fragment of the link, so that a teacher can hand it out. */
function fragment(text: string, numbers: Record<string, number>): string {
  const bytes = new TextEncoder().encode(JSON.stringify({ text, numbers }));
  return "#f=" + btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function ofFragment(): { text: string; numbers: Record<string, number> } | undefined {
  const match = /#f=([\w-]+)/.exec(location.hash);
  if (!match) return undefined;
  try {
    const bytes = Uint8Array.from(atob(match[1].replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
    const { text, numbers } = JSON.parse(new TextDecoder().decode(bytes));
    const known = Object.entries(numbers ?? {}).filter(([key, value]) => key in SLIDERS && Number.isInteger(value));
    return typeof text === "string" ? { text, numbers: Object.fromEntries(known) as Record<string, number> } : undefined;
  } catch {
    return undefined;
  }
}

class Page {
  readonly ask: Ask;
  readonly editor: Editor;
  numbers: Record<string, number>;
  explained: Answer = {};
  before = "";
  private timer = 0;
  private asked = 0;

  constructor() {
    keyOfLink();
    const status = byId("status");
    this.ask = local ? ofServer : inBrowser((text) => (status.textContent = text));
    const given = ofFragment() ?? { text: FIRST, numbers: {} };
    this.numbers = given.numbers;
    this.editor = new Editor(byId("editor"), given.text, () => this.changed());
    this.before = given.text;
    this.sliders();
    byId("keep").addEventListener("click", () => {
      this.before = this.editor.text;
      this.read();
    });
    byId("share").addEventListener("click", async () => {
      const link = location.href.replace(/#.*/, "") + fragment(this.editor.text, this.numbers);
      await navigator.clipboard?.writeText(link).catch(() => undefined);
      history.replaceState(null, "", link);
      status.textContent = "The link with this formula stands in the address bar, and is copied.";
    });
    window.addEventListener("hashchange", () => {
      const other = ofFragment();
      if (other) this.open(other.text, other.numbers);
    });
    void this.begin();
  }

  private async begin(): Promise<void> {
    this.read();
    knowWords(await this.ask({ call: "words" }));
    const { entries } = await this.ask({ call: "entries" });
    const select = byId("gallery") as HTMLSelectElement;
    const kinds = new Map<string, HTMLOptGroupElement>();
    for (const { name, title, kind } of entries ?? []) {
      if (!kinds.has(kind)) kinds.set(kind, select.appendChild(el("optgroup", { label: kind })));
      kinds.get(kind)!.append(el("option", { value: name }, `${name}: ${title}`));
    }
    select.addEventListener("change", () => this.openEntry(select.value));
    new Course(this, (await this.ask({ call: "lessons" })).lessons ?? []);
    if (local) studio(this);
  }

  async openEntry(name: string): Promise<void> {
    const { text } = await this.ask({ call: "entry", name });
    if (text) this.open(text, {});
  }

  open(text: string, numbers: Record<string, number>): void {
    this.numbers = numbers;
    this.editor.text = text;
    this.read();
  }

  private sliders(): void {
    for (const [name, steps] of Object.entries(SLIDERS)) {
      const shown = el("output", { id: `${name}-shown` });
      const input = el("input", {
        type: "range", id: name, min: 0, max: steps.length - 1, "aria-describedby": `${name}-shown`,
        oninput: () => {
          this.numbers = { ...this.numbers, [name]: steps[Number(input.value)] };
          shown.textContent = String(steps[Number(input.value)]);
          this.changed();
        },
      });
      byId("sliders").append(el("label", { for: name }, name), input, shown);
    }
  }

  private changed(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.read(), WAIT);
  }

  private async read(): Promise<void> {
    clearTimeout(this.timer);
    const turn = ++this.asked;
    const request = { call: "explain", text: this.editor.text, numbers: this.numbers, other: this.before };
    const answer = await this.ask(request).catch((error) => ({ error: { message: String(error.message ?? error) } }));
    if (turn !== this.asked) return; // a later text is being read
    this.editor.show(answer.error);
    byId("mistake").textContent = answer.error ? answer.error.message : "";
    document.body.classList.toggle("wrong", Boolean(answer.error));
    if (!answer.error) this.show(answer);
  }

  private show(answer: Answer): void {
    this.explained = answer;
    byId("picture").replaceChildren(answer.svg ? picture(answer.svg) : "too large to be drawn");
    byId("size").textContent = `${answer.size}; ${answer.totals.flops_per_token.toLocaleString()} FLOPs a token`;
    byId("page").textContent = answer.page;
    byId("command").textContent = answer.command;
    const numbers: Record<string, number> = answer.numbers;
    for (const [name, steps] of Object.entries(SLIDERS)) {
      const input = byId(name) as HTMLInputElement;
      const value = numbers[name];
      input.disabled = value === undefined;
      byId(`${name}-shown`).textContent = value === undefined ? "none" : String(value);
      if (value !== undefined) input.value = String(steps.findIndex((step) => step >= value) + 0);
    }
    const warnings = answer.warnings.map((warning: Answer) =>
      el("li", {},
        el("strong", {}, warning.note ? "Note: " : "", warning.what), ". ", warning.why, " ",
        ...warning.remedies.map((remedy: Answer) =>
          remedy.text ? el("button", { onclick: () => this.open(remedy.text, this.numbers) }, remedy.words) : remedy.words),
      ));
    byId("warnings").replaceChildren(...(warnings.length ? warnings : [el("li", {}, "none")]));
    const open = (name: string) => el("button", { onclick: () => this.openEntry(name) }, name);
    byId("near").replaceChildren(
      ...(answer.relatives.length
        ? [el("li", {}, "the same wiring:"), ...answer.relatives.map((name: string) => el("li", {}, open(name)))]
        : answer.nearest.map((one: Answer) =>
            el("li", {}, open(one.name), ` ${Number(one.edits.toPrecision(3))} edits a layer`))));
    const apart = answer.difference;
    const parts = !apart || apart.error ? [] : [el("pre", {}, apart.equal ? "nothing" : apart.text)];
    byId("difference").replaceChildren(...parts, apart?.svg ? picture(apart.svg) : "");
  }
}

export type { Page };

declare global {
  interface Window {
    page: Page;
  }
}

window.page = new Page();
