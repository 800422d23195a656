"""Preferences: a decoder learns to reply as chosen replies do, and not as rejected ones.

    DPO and IPO compare with a frozen reference: the model that training begins from, whose log P is made once
    ORPO, SimPO and supervised learning of the chosen reply do without; see `preference_losses`

A run begins from a model that replies already: `--init-from RUN`. There is no reinforcement loop: nothing is learned
from replies that the model writes itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.judges import judges
from ..data.messages import message_text
from ..data.splits import SplitRows
from ..errors import InputError, setting
from ..tokenizers.base import Tokenizer
from .base import IGNORED, Batch, Progress, Scores, task, task_again
from .dialogue import Dialogue
from .drawn_replies import Drawing
from .learned_parts import text_scores
from .losses import per_token
from .pair_task import SHOWN_ROWS, PairTask, accuracy_of, pair_report
from .preference_losses import COMPARING, PairLoss, Said
from .preference_pairs import SIDES, pair_accuracy, pair_batch
from .preference_settings import PreferenceSettings
from .reference import Reference
from .replies import Replying
from .scores.measured import Measured, mean_of
from .scores.report import Report, standing_above
from .trained import Trained
from .writing import WRITING_COST, spread_rows


@task("preference")
class Preference(PairTask):
    """Replies that are preferred over others, by DPO and its kin. The main score is the share of pairs whose chosen
    reply gained more than the rejected one."""

    chosen: PreferenceSettings
    settings = evaluation = PreferenceSettings
    measures = (
        "loss", "accuracy", "margin", "chosen_loss", "length", "stops", "drift", "reference_length", "win_rate",
    )  # fmt: skip
    higher = frozenset(["accuracy", "margin", "stops", "win_rate"])
    reference: Reference | None = None
    verb = Dialogue.verb

    @classmethod
    def check_data(cls, settings: Any) -> None:
        super().check_data(settings)
        if settings.judge is not None:
            judges.get(settings.judge)
        if settings.loss in COMPARING and settings.reference is None:
            raise InputError(
                f"{settings.loss} compares with a frozen reference: begin from a model that replies already,"
                f" {setting('init_from', 'RUN')}; or take a loss without one: {setting('loss', 'orpo')}"
            )

    def learn(self, rows: SplitRows, tokenizer: Tokenizer, numbers: Mapping[str, Any]) -> None:
        super().learn(rows, tokenizer, numbers)
        self.pair_loss, self.drawing = PairLoss(self.chosen.loss, self.chosen.options), Drawing(self.chat)
        self.remarks = {"loss": f"{self.chosen.loss}, beta {self.chosen.options.beta:g}"}

    def refer(self, reference: Reference) -> None:
        """Take the frozen model that the setting `reference` names. Raises InputError where it reads other tokens."""
        reference.check(self.chat.tokenizer)
        texts = [text for side in (self.training, self.validation) for pair in side.pairs for text in pair]
        learned, held = np.split(reference.log_probs(texts).reshape(-1, 2), [len(self.training.pairs)])
        self.reference, self.pair_loss = reference, replace(self.pair_loss, learned=learned, held=held)
        self.remarks = {**self.remarks, "reference": f"{reference.named}: its log P of all pairs is made once and kept"}

    def batch(self, step: int, micro: int = 0) -> Batch:
        rows = self.buckets.rows(step, micro)
        before = self.pair_loss.before(self.pair_loss.learned, rows).float()
        return pair_batch([self.training.pairs[row] for row in rows], reference=before)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean over pairs, whatever their lengths."""
        logits, targets = model(**batch.given).flatten(0, 1).float(), batch.targets
        each = F.cross_entropy(logits, targets.flatten(), reduction="none", ignore_index=IGNORED)
        tokens = (targets != IGNORED).sum(-1)
        return self.pair_loss.each(Said(-each.view(targets.shape).sum(-1), batch.inputs["reference"], tokens)).mean()

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores of the validation pairs, and of replies that are drawn to their prompts.

        loss              the mean of the loss of training
        accuracy          share of pairs whose chosen reply gained more log P than the rejected one since the reference;
                          without one, and of orpo and simpo, those whose chosen reply has the greater log P
        margin            the mean of that difference, in nats
        chosen_loss       nats per token of the chosen replies
        length, stops     tokens of a drawn reply, and the share that come to their end
        drift             KL(model || reference) per token of these, in nats; 0 where nothing changed
        reference_length  tokens of a reply of the reference
        win_rate          share of prompts to which the judge prefers the model's reply over the reference's; equal
                          scores count half: 50 where nothing changed
        """
        loss, measured, _ = measured_pairs(self, model, progress)
        return Scores(loss=loss).measure(measured)

    def cost_of(self, rows: int) -> float:
        return super().cost_of(rows) + WRITING_COST * min(rows, self.chosen.written) * 2 * self.longest

    def keep_rows(self, rows: np.ndarray) -> None:
        super().keep_rows(rows)
        if self.pair_loss.held is not None:
            self.pair_loss = replace(self.pair_loss, held=self.pair_loss.held[rows])

    def baselines(self) -> dict[str, float]:
        """And of taking the reply that the reference finds more probable."""
        known = super().baselines()
        if self.pair_loss.held is not None:
            known["likelier to the reference"] = pair_accuracy(*self.pair_loss.held.T).score
        return known

    def verdict(self, scores: Mapping[str, float]) -> str:
        text = f"accuracy {scores['accuracy']:.1f} on {len(self.validation.pairs):,} pairs:"
        text = f"{text} {standing_above(scores['accuracy'], self.baselines())}"
        if "drift" in scores:
            text += f"; drift {scores['drift']:.3f} nats per token, length {scores['length']:.1f}"
            text += f" (reference {scores['reference_length']:.1f})"
        return text + (f"; win rate {scores['win_rate']:.1f}" if "win_rate" in scores else "")

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation prompts: the reply of the model, and the two that stand there."""
        rows = np.random.default_rng(seed).permutation(len(self.validation.records))[:SHOWN_ROWS].tolist()
        some: list[Any] = self.drawing.read([self.validation.records[row] for row in rows])
        lines = []
        for record, reply in zip(some, self.drawing.draw(model, some, seed), strict=True):
            texts = [("prompt", message_text(record["prompt"][-1])), ("reply", reply.written.text)]
            texts += [(side, message_text(record[side][0])) for side in SIDES]
            lines += [*(f"{name:<11}{' '.join(text.split())[:100]}" for name, text in texts), ""]
        return "\n".join(lines).strip()

    def predictor(self) -> Replying:
        return self.chat

    def describe(self) -> dict[str, Any]:
        reference = self.reference and self.reference.identity
        return {**super().describe(), "loss": self.chosen.loss, "reference": reference}

    @classmethod
    def report(
        cls, trained: Trained, data: Any, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        """Scores of the pairs of the run's validation split, or of `data`, each with its interval, and of replies."""
        if not ({**trained.recorded, **given}.get("reference")):
            given = {"loss": "sft", **given}
        task = task_again(cls, trained, data, given)
        cls.check_data(task.chosen.model_copy(update={"data": "named"}))
        if task.chosen.reference is not None:
            task.refer(trained.refer(task.chosen.reference))
        loss, measured, margins = measured_pairs(task, trained.alone, progress)
        return pair_report(task, measured, margins, [*trained.notes, f"loss {loss:.4f} ({task.chosen.loss})"])


def measured_pairs(
    task: Preference, model: Any, progress: Progress | None = None
) -> tuple[float, list[Measured], np.ndarray]:
    """The loss of the validation pairs, the scores, and the margin of each pair."""
    texts = [text for pair in task.validation.pairs for text in pair]
    found = text_scores(model, texts, progress and (lambda done, whole: progress(done // 2, whole // 2)))
    numbers = torch.tensor([[-one.nats, one.tokens] for one in found], dtype=torch.float64).view(-1, 2, 2)
    loss = task.pair_loss
    said = Said(numbers[..., 0], loss.before(loss.held, np.arange(len(numbers))), numbers[..., 1])
    margins = said.margins(loss.options.means, loss.gains).numpy()
    whose = "gained since the reference" if loss.gains else "of the model itself"
    what = f"{'mean' if loss.options.means else 'sum'} of log P, chosen less rejected, {whose}"
    nats = torch.stack([-said.sums[:, 0], said.tokens[:, 0]], -1).numpy()
    chosen = replace(per_token(nats, "chosen loss"), signature="nats per token of the chosen replies")
    scores = [accuracy_of(margins), mean_of("margin", what, margins, digits=2), chosen]
    rows = spread_rows(len(task.validation.records), task.chosen.written)
    some = task.drawing.read([task.validation.records[row] for row in rows])
    if some:
        scores += task.drawing.scores(model, some, task.reference, task.chosen.judge)
    return float(loss.each(said).mean()), scores, margins
