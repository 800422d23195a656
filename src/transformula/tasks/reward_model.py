"""Reward models: a number for a reply, higher for the one that is preferred.

    loss = mean over pairs of -log sigmoid(r(w) - r(l)) + center (r(w) + r(l))^2     Bradley and Terry 1952

w is the chosen reply, l the rejected one, r the model's output at the last token of the dialogue and its reply. With
`center` rewards stay around 0 (Eisenstein et al. 2023); the loss alone leaves their level open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.messages import message_text
from ..data.settings import PreferenceColumns
from ..errors import InputError
from ..language.graph import Architecture
from .base import Batch, Progress, Scores, outputs_in_words, outputs_of, task, task_again
from .dialogue import TemplateSettings
from .pair_task import SHOWN_ROWS, PairTask, accuracy_of, pair_report
from .preference_pairs import SIDES, Pair, PairBatch, lengths_of_texts, of_both
from .replies import TemplatedChat
from .rewards import ReplyScorer, Scoring, TemplatedReplyScorer, at_last, rewards_of
from .scores.correlation import spearman
from .scores.measured import Measured, mean_of
from .scores.report import Report, standing_above
from .trained import Trained
from .verb import Verb


class RewardSettings(PreferenceColumns, TemplateSettings):
    """Which pairs there are, how they become text, and what is learned of them."""

    center: float = Field(0.0, ge=0, description="weight of (r(chosen) + r(rejected))^2, which keeps rewards around 0")


@task("reward-model")
class RewardModel(PairTask):
    """A number for a reply, learned from pairs of which one is preferred. The main score is the share of pairs whose
    chosen reply has the higher number."""

    chosen: RewardSettings
    settings = evaluation = RewardSettings
    unit = "tokens"
    measures = ("loss", "accuracy", "margin", "length_correlation")
    higher = frozenset(["accuracy", "margin"])
    model = {"output": "reward = linear(x, 1)"}
    widths = {1: "reward = linear(x, 1)"}
    reads_end = True
    verb = Verb(
        "score",
        help="how good a reply is, by a reward model",
        about="""\
Score replies with a trained reward model: a higher number is a better reply to the same message. A line has the
message, a tab and the reply; a .jsonl file has rows with messages, the last of which is the reply, or with prompt and
reply. The numbers have no unit: they compare replies to one message.""",
        examples=(
            "transformula score runs/reward --input replies.jsonl --format jsonl --output scores.jsonl",
            'printf "A taxi, please.\\tGladly.\\n" | transformula score runs/reward',
        ),
        takes="REPLY",
        answers="scores",
        reads="transformula.data.preferences:read_replies",
    )

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        reads, widths = set(architecture.inputs), [*outputs_of(architecture).values()]
        if reads != {"tokens"}:
            raise InputError(f"{cls.name} gives a model `tokens` alone: this one reads {', '.join(sorted(reads))}")
        if widths != [1]:
            raise InputError(
                f"{cls.name} needs one number: `output` makes {outputs_in_words(architecture)}. Write output:"
                f" {cls.model['output']}"
            )

    def batch(self, step: int, micro: int = 0) -> Batch:
        pairs: Sequence[Pair] = [self.training.pairs[row] for row in self.buckets.rows(step, micro)]
        texts = [text.ids for pair in pairs for text in pair]
        lengths = lengths_of_texts([len(ids) for ids in texts])
        return PairBatch({"tokens": of_both(texts)}, torch.zeros(len(pairs), dtype=torch.int64), lengths)

    def units(self, batch: Batch) -> int:
        tokens = batch.inputs["tokens"]
        return int(batch.lengths["tokens"].sum()) if batch.lengths else tokens.numel()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        tokens = batch.inputs["tokens"]
        whole = {"tokens": tokens.new_full((2 * len(tokens),), tokens.shape[2])}
        lengths = batch.given.get("lengths", whole)["tokens"]
        return self.losses(at_last(model(**batch.given), lengths).view(-1, 2)).mean()

    def losses(self, rewards: Tensor) -> Tensor:
        """(pairs,): the loss of each pair, by the rewards of both replies (pairs, 2)."""
        return -F.logsigmoid(rewards[:, 0] - rewards[:, 1]) + self.chosen.center * rewards.sum(-1) ** 2

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores of the validation pairs.

        loss                the mean of the loss of training
        accuracy            share of pairs whose chosen reply has the higher reward; equal ones count half
        margin              the mean of the chosen reply's reward less that of the rejected one
        length_correlation  Spearman's correlation of the reward with the tokens of a reply
        """
        loss, measured, _ = measured_rewards(self, model, progress)
        return Scores(loss=loss).measure(measured)

    def verdict(self, scores: Mapping[str, float]) -> str:
        beside = standing_above(scores["accuracy"], self.baselines())
        text = f"accuracy {scores['accuracy']:.1f} on {len(self.validation.pairs):,} pairs: {beside}"
        return f"{text}; correlation with length {scores['length_correlation']:.2f}"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation pairs, each reply with its reward."""
        rows = np.random.default_rng(seed).permutation(len(self.validation.pairs))[:SHOWN_ROWS].tolist()
        lines = []
        for row in rows:
            record: Any = self.validation.records[row]
            rewards = rewards_of(model, [text.ids for text in self.validation.pairs[row]]).tolist()
            lines.append(f"{'prompt':<17} {' '.join(message_text(record['prompt'][-1]).split())[:100]}")
            for side, reward in zip(SIDES, rewards, strict=True):
                lines.append(f"{side:<9}{reward:8.2f} {' '.join(message_text(record[side][0]).split())[:100]}")
            lines.append("")
        return "\n".join(lines).strip()

    def predictor(self) -> Scoring:
        if isinstance(self.chat, TemplatedChat):
            return TemplatedReplyScorer(self.name, self.numbers["context"], self.chat.tokenizer)
        return ReplyScorer(self.name, self.chat.template, self.numbers["context"], self.chat.tokenizer)

    @classmethod
    def report(
        cls, trained: Trained, data: Any, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        """Scores of the pairs of the run's validation split, or of `data`, each with its interval."""
        task = task_again(cls, trained, data, given)
        loss, measured, margins = measured_rewards(task, trained.alone, progress)
        return pair_report(task, measured, margins, [*trained.notes, f"loss {loss:.4f}"])


def measured_rewards(
    task: RewardModel, model: Any, progress: Progress | None = None
) -> tuple[float, list[Measured], np.ndarray]:
    """The loss of the validation pairs, the scores, and the margin of each pair."""
    pairs = task.validation.pairs
    flat = rewards_of(model, [text.ids for pair in pairs for text in pair], progress)
    rewards, tokens = flat.reshape(-1, 2), np.array([pair.tokens for pair in pairs]).flatten()
    margins = rewards[:, 0] - rewards[:, 1]
    length = replace(spearman(flat, tokens), name="length correlation", higher=False)
    loss = float(task.losses(torch.from_numpy(rewards)).mean())
    margin = mean_of("margin", "reward, chosen less rejected", margins, digits=2)
    return loss, [accuracy_of(margins), margin, length], margins
