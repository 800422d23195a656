"""Remedies: texts made from the user's own, checked and analyzed again before they are offered.

A remedy is offered only if its text checks, if what it was made for holds when it is analyzed again, and if the warning
that it answers is gone. Warnings that stay are named; where only the final norm lacks, it is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..language.check import check
from ..language.messages import FormulaError
from ..language.model_file import ModelText
from ..language.vocabulary import Vocabulary
from .budget import Budget
from .canonical import WIRING_DEPTH, check_for_wiring, wiring_key
from .rewrites import with_final_norm
from .stack_analysis import StackAnalysis, analyze_stack
from .warning_table import Proposal, Remedy, Warning
from .warnings import find_all

LEFT_OUT = "some remedies of what is warned of: the model is too large to check its changed texts"


class Adviser:
    """Gives the warnings of one stack their remedies."""

    def __init__(self, analysis: StackAnalysis, vocabulary: Vocabulary, budget: Budget) -> None:
        self.analysis, self.vocabulary, self.budget = analysis, vocabulary, budget
        architecture = analysis.architecture
        self.size = sum(len(section.values) for section in architecture.sections())
        self.wired = WIRING_DEPTH * max(len(layer.values) for stack in architecture.stacks for layer in stack.layers)

    def warnings(self) -> list[Warning]:
        """The warnings and notes; where several warnings stay whatever one mends, with the text that mends all."""
        warnings = [self.with_remedies(warning) for warning in find_all(self.analysis)]
        strong = [w for w in warnings if not w.note]
        if len({w.code for w in strong}) > 1 and all(r.left for w in strong for r in w.remedies):
            n = warnings.index(strong[0])
            warnings[n] = replace(warnings[n], remedies=(*warnings[n].remedies, *self.mended(warnings)))
        return warnings

    def with_remedies(self, warning: Warning) -> Warning:
        remedies: dict[str, Remedy] = {}
        for proposal in warning.proposals:
            remedy = self.remedy(warning.code, proposal) if proposal.words not in remedies else None
            if remedy is not None:
                remedies[proposal.words] = remedy
        entries = tuple(name for name in warning.entries if name != self.analysis.architecture.name)
        more = warning.more or (self.grown(warning.look_alike) if warning.look_alike is not None else "")
        return replace(warning, remedies=tuple(remedies.values()), entries=entries, more=more)

    def grown(self, look_alike: Proposal) -> str:
        """What becomes of skip-2 if it is tidied up to pre-norm: another model, whose stream grows."""
        again, parts = self.analyzed(look_alike.text), self.changed(look_alike.text)
        scales = again.stream_scales if again is not None else []
        grown = next((s for s in scales if s.growth is not None and s.growth >= 2), None)
        if grown is None or not parts:
            return ""
        layer = "; ".join(next(iter(parts.values())).splitlines())
        said = f"is not: there the scale of {grown.stream} is {grown}."
        return f"In size it is sound. Its pre-norm look-alike, {layer}, {said}"

    def mended(self, warnings: Sequence[Warning]) -> list[Remedy]:
        """Where there are several warnings: the text without any, one remedy after the other."""
        for _ in range(len(warnings) + 2):
            remedy = next((r for w in warnings if not w.note for r in w.remedies), None)
            again = self.analyzed(remedy.made) if remedy is not None else None
            if remedy is None or again is None:
                break
            adviser = Adviser(again, self.vocabulary, self.budget)
            warnings = [adviser.with_remedies(warning) for warning in find_all(again)]
            if all(w.note for w in warnings):
                whole = self.remedy("", Proposal(remedy.made, "all of it mended"))
                return [whole] if whole is not None else []
        return []

    def analyzed(self, text: ModelText) -> StackAnalysis | None:
        """A changed text, checked and analyzed; None if it is no formula any more, or the model is too large."""
        if not self.budget.spend("advised", self.size, LEFT_OUT):
            return None
        try:
            changed = check(text, self.vocabulary)
        except FormulaError:
            return None
        return analyze_stack(changed.stacks[self.analysis.index], changed, Budget())

    def remedy(self, code: str, proposal: Proposal) -> Remedy | None:
        """The remedy with this text, if it checks, what should hold does, and the warning is gone."""
        text, left = proposal.text, self.left(proposal)
        if left is not None and "no-final-norm" in left and code != "no-final-norm":
            ended = replace(proposal, text=with_final_norm(text, self.analysis.index))
            left_then = self.left(ended)
            if left_then is not None and len(left_then) < len(left):
                text, left = ended.text, left_then
        parts = self.changed(text)
        if left is None or code in left or not parts:  # a text is no remedy of itself
            return None
        checked = self.budget.spend("advised", self.wired, LEFT_OUT)
        wiring = wiring_key(check_for_wiring(text, self.vocabulary)) if checked else ""
        return Remedy(parts, proposal.words, left, text, wiring)

    def left(self, proposal: Proposal) -> tuple[str, ...] | None:
        """The codes of the warnings of a changed text; None if it does not check, or what should hold does not."""
        again = self.analyzed(proposal.text)
        if again is None or not proposal.holds(again):
            return None
        return tuple(dict.fromkeys(warning.code for warning in find_all(again) if not warning.note))

    def changed(self, text: ModelText) -> dict[str, str]:
        """The parts of this stack that differ from the user's text."""
        mine, other = (whole.stacks[self.analysis.index] for whole in (self.analysis.architecture.text, text))
        only = len(other.layers) == 1
        layers = [("layer" if only else name, mine.layers.get(name), new) for name, new in other.layers.items()]
        parts = [("before", mine.before, other.before), *layers, ("after", mine.after, other.after)]
        changed = {key: new.text for key, old, new in parts if new and (old is None or old.text != new.text)}
        return {f"{self.analysis.prefix}{key}": text for key, text in changed.items()}


def warnings_of(
    analyses: Sequence[StackAnalysis], vocabulary: Vocabulary | None = None, budget: Budget | None = None
) -> list[Warning]:
    """The warnings of a model, then the notes.

    vocabulary  to check the texts that are offered; by default the words that the model uses: enough for most changes
    budget      how much is checked again for texts that are offered
    """
    if vocabulary is None:
        calls = [v.called for s in analyses[0].architecture.sections() for v in s.calls()]
        inner = [v.call for c in calls for template in c.inner.values() for v in template.values if v.call is not None]
        vocabulary = Vocabulary({call.word.name: call.word for call in (*calls, *inner)}.values())
    warnings = [w for a in analyses for w in Adviser(a, vocabulary, budget or Budget()).warnings()]
    return sorted(warnings, key=lambda warning: warning.note)
