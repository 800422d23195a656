// The course: a lesson's steps, one after the other. Each may put equations into the editor, and ask for a prediction.

import { Answer } from "./asking";
import { byId, el } from "./dom";
import type { Page } from "./main";

interface Step {
  say: string;
  text?: string;
  entry?: string;
  numbers?: Record<string, number>;
  ask?: string;
  choices?: string[];
  right?: number;
  answer?: string;
}

export class Course {
  constructor(private readonly page: Page, private readonly lessons: Answer[]) {
    const select = byId("lesson") as HTMLSelectElement;
    lessons.forEach((lesson, number) =>
      select.append(el("option", { value: number }, `${number + 1}. ${lesson.title}`)));
    select.addEventListener("change", () => select.value !== "" && this.open(Number(select.value)));
    byId("lesson-close").addEventListener("click", () => {
      byId("course").hidden = true;
      select.value = "";
      select.focus();
    });
  }

  private open(number: number): void {
    const lesson = this.lessons[number];
    byId("course").hidden = false;
    byId("lesson-title").textContent = `Lesson ${number + 1} of ${this.lessons.length}: ${lesson.title}`;
    byId("lesson-steps").replaceChildren();
    this.step(lesson, 0);
    byId("lesson-title").focus();
  }

  /** Shows a step; the next one once its question is answered. */
  private step(lesson: Answer, at: number): void {
    const steps = byId("lesson-steps");
    const step: Step | undefined = lesson.steps[at];
    if (!step) {
      steps.append(el("p", { class: "mistake" }, el("strong", {}, "A mistake that is made often. "), lesson.mistake));
      return;
    }
    const { text, entry, numbers } = step;
    const put = () => (entry ? this.page.openEntry(entry) : this.page.open(text!, { ...this.page.numbers, ...numbers }));
    const shown = el("div", { class: "step" }, el("p", {}, step.say, " ",
      (text || entry) && el("button", { type: "button", onclick: () => void put() }, "Put it into the editor")));
    steps.append(shown);
    if (text || entry) void put();
    if (!step.ask || !step.choices) {
      const next: Step | undefined = lesson.steps[at + 1];
      if (!next?.text && !next?.entry) return this.step(lesson, at + 1);
      const go = el("button", { type: "button", onclick: () => (go.remove(), this.step(lesson, at + 1)) }, "Go on");
      shown.append(go);
      return;
    }
    const answer = el("p", { role: "status", "aria-live": "polite" });
    const name = `question-${at}`;
    const fields = el("fieldset", {}, el("legend", {}, step.ask),
      ...step.choices.map((choice, n) =>
        el("label", {}, el("input", { type: "radio", name, value: n + 1, onchange: () => answered(n + 1) }), choice)), answer);
    let first = true;
    const answered = (choice: number) => {
      answer.textContent = `${choice === step.right ? "Yes." : "No."} ${step.answer ?? ""}`;
      if (first) this.step(lesson, at + 1);
      first = false;
    };
    shown.append(fields);
  }
}
