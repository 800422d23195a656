// What a server of ours adds to the editor: train it now, see its curve, write with it, open runs and reports.

import { Answer, call } from "./asking";
import { byId, el, picture } from "./dom";
import type { Page } from "./main";

const POLL = 1000; // milliseconds between two looks at a run that goes on

interface Run {
  name: string;
  state: "running" | "ended" | "stopped";
  title: string;
  command: string;
}

interface Curve {
  step: number;
  loss: number;
}

interface Use {
  verb: string;
  text: boolean;
  fields: string[];
  reads: "texts" | "pictures" | "both";
  folder: string;
}

const quoted = (text: string) => `'${text.replaceAll("'", `'"'"'`)}'`;

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** An answer as lines: its text, and what else is known of it. */
function told(answer: Answer): string {
  const { text, score, ...more } = answer;
  const lines = [text ?? "(nothing)", ...(score === undefined ? [] : [`score ${Number(score.toPrecision(4))}`])];
  for (const [name, value] of Object.entries(more)) {
    const written = JSON.stringify(value, (_, one) => (typeof one === "number" ? Number(one.toPrecision(4)) : one));
    lines.push(`${name} ${written.length > 2000 ? written.slice(0, 2000) + " ..." : written}`);
  }
  return lines.join("\n");
}

/** Losses by step as lines, with the n-grams that they are held to, and the validation loss of a run beside it. */
function curve(training: Curve[], validation: Curve[], lines: Record<string, number>, beside: Curve[]): SVGElement {
  const width = Math.min(560, document.documentElement.clientWidth - 32), height = 240, left = 46, bottom = 24;
  const make = (name: string, attributes: Record<string, string | number>, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.textContent = text;
    return element;
  };
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "loss by step", class: "curve" });
  const every = [...training, ...validation, ...beside];
  if (!every.length) return svg as SVGElement;
  const most = Math.max(...every.map((p) => p.step), 1);
  const values = [...every.map((p) => p.loss), ...Object.values(lines)];
  const low = Math.min(...values), high = Math.max(...values, low + 1e-6);
  const x = (step: number) => left + ((width - left - 8) * step) / most;
  const y = (loss: number) => 8 + ((height - bottom - 8) * (high - loss)) / (high - low);
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(make("line", { x1: left, x2: width - 8, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(make("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)));
  }
  for (const [name, value] of Object.entries(lines)) {
    svg.append(make("line", { x1: left, x2: width - 8, y1: y(value), y2: y(value), class: "baseline" }));
    svg.append(make("text", { x: width - 10, y: y(value) - 3, "text-anchor": "end" }, name));
  }
  for (const [points, kind] of [[training, "training"], [beside, "beside"], [validation, "validation"]] as const) {
    const path = points.map((p, n) => `${n ? "L" : "M"}${x(p.step).toFixed(1)} ${y(p.loss).toFixed(1)}`).join("");
    if (path) svg.append(make("path", { d: path, class: kind }));
  }
  svg.append(make("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, `step ${most.toLocaleString()}`));
  return svg as SVGElement;
}

class Studio {
  private shown = "";
  private beside = "";
  private timer = 0;
  private use: Use | null = null;

  constructor(private readonly page: Page) {
    byId("studio").hidden = byId("picture-hint").hidden = false;
    byId("train").addEventListener("submit", (event) => this.send(event, () => this.train()));
    byId("write").addEventListener("submit", (event) => this.send(event, () => this.write()));
    byId("try").addEventListener("submit", (event) => this.send(event, () => this.answer()));
    byId("evaluate").addEventListener("click", () => this.attempt(() => this.scores()));
    byId("inside").addEventListener("submit", (event) => this.send(event, () => this.inside()));
    byId("train-both").addEventListener("click", () => this.attempt(() => this.trainBoth()));
    const look = byId("look") as HTMLSelectElement;
    look.addEventListener("change", () => (byId("silence-label").hidden = look.value !== "ablate"));
    byId("picture").addEventListener("click", (event) => {
      const place = (event.target as Element).closest("[data-place]")?.getAttribute("data-place");
      if (place && this.shown) void this.attempt(() => this.silence(place));
    });
    byId("stop").addEventListener("click", () => this.attempt(() => this.act("stop")));
    byId("resume").addEventListener("click", () => this.attempt(() => this.act("resume")));
    const source = byId("source") as HTMLSelectElement;
    source.addEventListener("change", () => (byId("own").hidden = source.value !== "own"));
    void this.attempt(() => this.list());
  }

  private send(event: Event, action: () => Promise<void>): void {
    event.preventDefault();
    void this.attempt(action);
  }

  private async attempt(action: () => Promise<void>): Promise<void> {
    byId("trouble").textContent = "";
    try {
      await action();
    } catch (error) {
      byId("trouble").textContent = String((error as Error).message ?? error);
    }
  }

  private async train(): Promise<void> {
    const run = await this.begin(this.page.editor.text);
    await this.list();
    await this.open(run.name);
  }

  /** Both learn from the same batches in the same order, since the data and the seed are the same. */
  private async trainBoth(): Promise<void> {
    const before = await this.begin(this.page.before);
    const run = await this.begin(this.page.editor.text);
    await this.list();
    await this.open(run.name, before.name);
  }

  private async begin(text: string): Promise<Run> {
    const minutes = Number((byId("minutes") as HTMLInputElement).value);
    const source = (byId("source") as HTMLSelectElement).value;
    const own = (byId("own-text") as HTMLTextAreaElement).value;
    const { numbers } = this.page;
    const body = { text, numbers, minutes, ...(source === "own" ? { own } : { source }) };
    return (await call("studio/train", body)).json();
  }

  private async act(what: string): Promise<void> {
    await call(`studio/runs/${encodeURIComponent(this.shown)}/${what}`, {});
    await this.open(this.shown, this.beside);
  }

  private async list(): Promise<void> {
    const { runs, reports } = await (await call("studio/runs")).json();
    byId("runs").replaceChildren(
      ...runs.map((run: Run) =>
        el("li", {}, el("button", { onclick: () => this.attempt(() => this.open(run.name)) }, run.name),
          ` ${run.title}, ${run.state} `,
          run.name !== this.shown && this.shown && el("button",
            { onclick: () => this.attempt(() => this.open(this.shown, run.name)), "aria-label": `show ${run.name} beside` },
            "show beside"))));
    if (reports.length) byId("reports").replaceChildren(
      ...reports.map((name: string) =>
        el("li", {}, el("button", { onclick: () => this.attempt(() => this.report(name)) }, name))));
  }

  private async report(name: string): Promise<void> {
    const html = await (await call(`studio/reports/${encodeURIComponent(name)}`)).text();
    const frame = el("iframe", { title: `report of ${name}`, sandbox: "", class: "report" });
    frame.srcdoc = html;
    byId("report").replaceChildren(frame);
    frame.scrollIntoView();
  }

  private async run(name: string): Promise<Answer> {
    return (await call(`studio/runs/${encodeURIComponent(name)}`)).json();
  }

  private async open(name: string, beside = ""): Promise<void> {
    clearTimeout(this.timer);
    if (name !== this.shown) {
      this.places(name);
      byId("scores").textContent = byId("scores-command").textContent = byId("try-command").textContent = "";
      byId("scores-picture").replaceChildren();
      byId("answers").replaceChildren();
      byId("try-fields").replaceChildren();
    }
    this.shown = name;
    this.beside = beside;
    const run = await this.run(name);
    const other = beside ? await this.run(beside) : undefined;
    byId("run").hidden = false;
    byId("run-name").textContent = `${run.name}: ${run.state}` + (other ? ` (red: ${other.name}, ${other.state})` : "");
    byId("curve").replaceChildren(curve(run.training, run.validation, run.baselines, other?.validation ?? []));
    byId("said").textContent = run.said;
    byId("sample").textContent = run.sample;
    byId("sampled").textContent = run.sample ? ` at step ${run.sampled.toLocaleString("en")}` : "";
    byId("run-command").textContent = run.command;
    (byId("stop") as HTMLButtonElement).disabled = run.state !== "running";
    (byId("resume") as HTMLButtonElement).disabled = run.state === "running" || !run.resumable;
    (byId("write-go") as HTMLButtonElement).disabled = (byId("evaluate") as HTMLButtonElement).disabled = !run.writes;
    this.offer(run.use);
    if (run.state === "running" || other?.state === "running") {
      this.timer = window.setTimeout(() => this.attempt(() => this.open(name, beside)), POLL);
    } else await this.list();
  }

  /** Shows how the run's model can be tried: with a text that it goes on with, or with an input that it answers. */
  private offer(use: Use | null): void {
    this.use = use;
    byId("writing").hidden = !!use && !use.text;
    byId("answering").hidden = !use || use.text;
    const fields = byId("try-fields");
    if (!use || use.text || fields.childElementCount) return;
    for (const name of use.fields) {
      fields.append(el("label", { for: `try-${name}` }, name));
      if (use.reads !== "pictures") fields.append(el("textarea", { id: `try-${name}`, rows: 2 }));
      if (use.reads !== "texts") fields.append(
        el("input", { id: use.reads === "pictures" ? `try-${name}` : "try-picture", type: "file", accept: "image/*", "aria-label": "picture" }));
    }
  }

  private async answer(): Promise<void> {
    const use = this.use!;
    const values = await Promise.all(use.fields.map(async (name) => {
      const file = byId("try-fields").querySelector<HTMLInputElement>("input[type=file]")?.files?.[0];
      if (file) return dataUrl(file);
      const text = (byId(`try-${name}`) as HTMLTextAreaElement).value;
      if (!text.trim()) throw new Error(`${name}: there is nothing to answer`);
      return text;
    }));
    const input = values.length > 1 ? Object.fromEntries(use.fields.map((name, n) => [name, values[n]])) : values[0];
    const shown = values[0].startsWith("data:") ? "FILE" : quoted(values[0]);
    byId("try-command").textContent =
      ["transformula", use.verb, use.folder, shown, ...use.fields.slice(1).flatMap((name) => [`--${name}`, "FILE"])].join(" ");
    byId("answers").replaceChildren();
    const { results } = await (await call("v1/predict", { model: this.shown, inputs: [input] })).json();
    const [{ answers, error }] = results;
    if (error) throw new Error(error);
    byId("answers").replaceChildren(...answers.map((one: Answer) => el("li", {}, el("pre", {}, told(one)))));
  }

  private async scores(): Promise<void> {
    byId("scores").textContent = "scoring ...";
    try {
      const shown = await (await call(`studio/runs/${encodeURIComponent(this.shown)}/scores`, {})).json();
      byId("scores-picture").replaceChildren(...(shown.svg ? [picture(shown.svg)] : []));
      byId("scores").textContent = shown.text;
      byId("scores-command").textContent = shown.command;
    } catch (error) {
      byId("scores").textContent = "";
      throw error;
    }
  }

  private places(name: string): void {
    const select = byId("silence") as HTMLSelectElement;
    select.replaceChildren(el("option", { value: "" }, "each sublayer"));
    byId("inside-picture").replaceChildren();
    byId("inside-said").textContent = byId("inside-command").textContent = "";
    void this.attempt(async () => {
      const { places } = await (await call(`studio/runs/${encodeURIComponent(name)}/places`)).json();
      select.append(...places.map((place: Answer) => el("option", { value: place.name }, `${place.name}: ${place.text}`)));
    });
  }

  /** Silences what was clicked in the diagram, a box or an edge, in the run that is open. */
  private async silence(place: string): Promise<void> {
    const look = byId("look") as HTMLSelectElement;
    const select = byId("silence") as HTMLSelectElement;
    look.value = "ablate";
    byId("silence-label").hidden = false;
    if (![...select.options].some((option) => option.value === place)) select.append(el("option", { value: place }, place));
    select.value = place;
    byId("inside").scrollIntoView();
    await this.inside();
  }

  private async inside(): Promise<void> {
    const look = (byId("look") as HTMLSelectElement).value;
    const text = (byId("inside-text") as HTMLTextAreaElement).value.trim();
    const silence = (byId("silence") as HTMLSelectElement).value;
    const body = { look, ...(text && { text }), ...(look === "ablate" && silence && { silence }) };
    byId("inside-said").textContent = "looking ...";
    try {
      const shown = await (await call(`studio/runs/${encodeURIComponent(this.shown)}/inside`, body)).json();
      byId("inside-picture").replaceChildren(picture(shown.svg));
      byId("inside-said").textContent = shown.text;
      byId("inside-command").textContent = shown.command;
    } catch (error) {
      byId("inside-said").textContent = "";
      throw error;
    }
  }

  private async write(): Promise<void> {
    const out = byId("written");
    const prompt = (byId("prompt") as HTMLTextAreaElement).value;
    const temperature = Number((byId("temperature") as HTMLInputElement).value);
    const body = { model: this.shown, prompt, temperature, max_tokens: 200, fit: true, stream: true };
    out.replaceChildren(el("strong", {}, prompt));
    const response = await call("v1/completions", body);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        const event = JSON.parse(line.slice(6));
        if (event.error) throw new Error(event.error.message);
        out.append(event.choices[0]?.text ?? "");
      }
    }
  }
}

export function studio(page: Page): void {
  new Studio(page);
}
