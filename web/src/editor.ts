// The equation editor: colors, completion of words, options and names, and the mistake underlined.

import { autocompletion, completionKeymap, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Answer } from "./asking";

interface Word {
  name: string;
  kind: string;
  calls: string[];
  equation: string;
  options: Record<string, { meaning: string; default: unknown }>;
}

const known = new Map<string, Word>();

/** Lets the editor complete these words: the answer of `words`. */
export function knowWords(answer: Answer): void {
  for (const words of Object.values(answer.kinds ?? {})) for (const word of words as Word[]) known.set(word.name, word);
}

const language = StreamLanguage.define({
  token(stream) {
    if (stream.match(/#.*/)) return "comment";
    if (stream.match(/\d+(\.\d*)?(e[+-]?\d+)?/)) return "number";
    if (stream.match(/"[^"]*"?|'[^']*'?/)) return "string";
    if (stream.match(/(if|else|and|or|not|true|false|True|False)\b/)) return "keyword";
    const name = stream.match(/[A-Za-z_]\w*/) as RegExpMatchArray | null;
    if (name) {
      if (stream.match(/\s*=(?!=)/, false)) return "definition";
      return known.has(name[0]) ? "function" : "variableName";
    }
    stream.next();
    return null;
  },
  tokenTable: { function: tags.function(tags.variableName), definition: tags.definition(tags.variableName) },
});

const colors = HighlightStyle.define([
  { tag: tags.comment, color: "var(--faint)" },
  { tag: [tags.number, tags.string], color: "var(--number)" },
  { tag: tags.keyword, color: "var(--keyword)" },
  { tag: tags.function(tags.variableName), color: "var(--word)" },
  { tag: tags.definition(tags.variableName), fontWeight: "600" },
]);

/** The word whose brackets the position stands in. */
function callAround(text: string): string {
  for (let at = text.length - 1, depth = 0; at >= 0; at--) {
    if (text[at] === ")") depth++;
    else if (text[at] === "(" && depth-- === 0) return /([A-Za-z_]\w*)(\.\w+)?$/.exec(text.slice(0, at))?.[1] ?? "";
  }
  return "";
}

function complete(context: CompletionContext): CompletionResult | null {
  const typed = context.matchBefore(/[A-Za-z_]\w*/);
  if (!typed && !context.explicit) return null;
  const before = context.state.sliceDoc(0, context.pos);
  const options = known.get(callAround(before))?.options ?? {};
  const names = new Set(context.state.doc.toString().match(/[A-Za-z_]\w*(?=\s*=)/g) ?? []);
  return {
    from: typed ? typed.from : context.pos,
    validFor: /^\w*$/,
    options: [
      ...Object.entries(options).map(([name, option]) => ({
        label: `${name}=`, type: "property", info: option.meaning, detail: String(option.default ?? ""), boost: 2,
      })),
      ...[...names].filter((name) => !known.has(name)).map((label) => ({ label, type: "variable", boost: 1 })),
      ...[...known.values()].map((word) => ({
        label: word.name, type: "function", detail: word.calls[0], info: word.equation,
        apply: (view: EditorView, _: unknown, from: number, to: number) => {
          const open = view.state.sliceDoc(to, to + 1) === "(" ? "" : "()";
          const anchor = from + word.name.length + 1;
          view.dispatch({ changes: { from, to, insert: word.name + open }, selection: { anchor } });
        },
      })),
    ],
  };
}

export class Editor {
  readonly view: EditorView;

  constructor(parent: HTMLElement, text: string, changed: (text: string) => void) {
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(), history(), bracketMatching(), lintGutter(), language, syntaxHighlighting(colors),
          autocompletion({ override: [complete] }),
          keymap.of([...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "equations", spellcheck: "false" }),
          EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Underlines a mistake, or none. */
  show(error: Answer | undefined): void {
    const found: Diagnostic[] = [];
    const { doc } = this.view.state;
    if (error) {
      const place = ([line, column]: [number, number]) => {
        const row = doc.line(Math.min(Math.max(1, line), doc.lines));
        return Math.min(row.from + column, row.to);
      };
      const from = error.from ? place(error.from) : 0;
      const to = error.to ? place(error.to) : doc.length;
      found.push({ from, to: Math.max(to, Math.min(from + 1, doc.length)), severity: "error", message: error.what ?? error.message });
    }
    this.view.dispatch(setDiagnostics(this.view.state, found));
  }
}
