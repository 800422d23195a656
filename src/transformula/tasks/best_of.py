"""Best of n: several replies are drawn to a message, and the one that a reward model scores highest is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..data.conversations import REPLIES
from ..data.messages import Message
from ..errors import InputError, setting
from ..generation.settings import ReplySettings
from .base import Progress
from .predictor import Predictor
from .replies import Conversation, Reply, Replying, is_dialogue
from .rewards import Scoring

MAX_DRAWN = 1024  # replies of which the best is chosen
SEEDS_APART = 1_000_003  # between the seeds of draws


def draws(settings: Any, count: int) -> list[Any]:
    """The settings of each of so many draws. Raises InputError where all would be the same."""
    if settings.temperature == 0:
        what = "without a temperature all replies are the same; draw them"
        raise InputError(f"{setting('best_of', str(count))}: {what}: {setting('temperature', '0.8')}")
    seeds = (settings.seed + SEEDS_APART * number for number in range(count))
    return [settings.model_copy(update={"seed": seed}) for seed in seeds]


@dataclass(frozen=True)
class BestOf:
    """What chooses among drawn replies.

    count   how many are drawn
    scorer  how the reward model reads them
    module  the reward model
    """

    count: int
    scorer: Scoring
    module: Any

    def draws(self, settings: Any) -> list[Any]:
        """The settings of each draw. Raises InputError where all would be the same."""
        return draws(settings, self.count)

    def choose(self, dialogues: Sequence[Sequence[Message]], drawn: Sequence[Sequence[str]]) -> list[tuple[int, float]]:
        """The place and the reward of the best of the texts that are drawn as replies to each dialogue; of equal ones
        the first."""
        given = [
            [*messages, {"role": REPLIES, "content": text}]
            for messages, texts in zip(dialogues, drawn, strict=True)
            for text in texts
        ]
        scored = self.scorer.predict([self.module], self.scorer.opened(given)) if given else []
        rewards = iter([one.score for one, in scored])
        best = []
        for texts in drawn:
            each = [next(rewards) for _ in texts]
            best.append((each.index(max(each)), max(each)))
        return best

    def replying(self, predictor: Predictor) -> BestReplying:
        """What replies by the best of several. Raises InputError for a model that replies to no messages."""
        if not isinstance(predictor, Replying):
            raise InputError(f"{setting('best_of', str(self.count))}: this model replies to no messages; leave it out")
        return BestReplying(predictor, self)

    def texts(self, prompts: Sequence[str], draw: Callable[[Any], list[str]], settings: Any) -> list[str]:
        """The best of the texts that `draw` makes by the settings of each draw; a prompt is a message, and what follows
        it the reply."""
        drawn = [list(each) for each in zip(*map(draw, self.draws(settings)), strict=True)]
        asked = [[{"role": "user", "content": prompt}] for prompt in prompts]
        return [texts[place] for texts, (place, _) in zip(drawn, self.choose(asked, drawn), strict=True)]


@dataclass(frozen=True)
class BestReply(Reply):
    """The reply of the highest reward, and this."""

    reward: float = 0.0


def best_of(count: Any, predictor: Predictor | None, module: Any, named: str) -> BestOf:
    """What chooses the best of so many replies by a reward model, `named` so, "" where none is.

    Raises InputError where one of the two is missing, and for a model that scores no replies.
    """
    if count is None or not named:
        which = "how many replies are drawn" if count is None else "what chooses among the replies"
        lacking = setting("best_of", "8") if count is None else setting("reward_model", "RUN")
        raise InputError(f"nothing says {which}: add {lacking}")
    if not isinstance(count, int) or not 2 <= count <= MAX_DRAWN:
        raise InputError(f"{setting('best_of')}: expected 2 to {MAX_DRAWN:,} replies (got {count!r})")
    if not isinstance(predictor, Scoring):
        raise InputError(f"{setting('reward_model', named)}: scores no replies; train one that does")
    return BestOf(count, predictor, module)


class BestReplying(Predictor):
    """A dialogue -> the best of several replies."""

    settings = ReplySettings

    def __init__(self, chat: Replying, best: BestOf) -> None:
        self.chat, self.best = chat, best
        self.tokenizer, self.reads = chat.tokenizer, chat.reads  # type: ignore[misc]

    @property
    def verb(self) -> str:
        return self.chat.verb

    def is_one(self, given: Any) -> bool:
        return is_dialogue(given)

    def opened(self, inputs: Sequence[Any]) -> list[list[Message]]:
        return self.chat.opened(inputs)

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: ReplySettings, *,
        progress: Progress | None = None, on_text: Callable[[int, str], None] | None = None,
    ) -> list[list[Reply]]:  # fmt: skip
        """The best reply to each dialogue; to one without a word there is none. A text is shown when it is chosen."""
        draws = [self.chat.predict(models, inputs, one, progress=progress) for one in self.best.draws(settings)]
        drawn = [[best[0] for best in each] for each in zip(*draws, strict=True)]
        system = [] if settings.system is None else [{"role": "system", "content": settings.system}]
        rows = [row for row, messages in enumerate(inputs) if messages]
        chosen = self.best.choose(
            [[*system, *inputs[row]] for row in rows], [[one.text for one in drawn[row]] for row in rows]
        )
        replies: list[list[Reply]] = [[each[0]] for each in drawn]
        for row, (place, reward) in zip(rows, chosen, strict=True):
            reply = drawn[row][place]
            replies[row] = [BestReply(**{one.name: getattr(reply, one.name) for one in fields(reply)}, reward=reward)]
            if on_text is not None:
                on_text(row, reply.text)
        return replies

    def conversation(self, model: Any, settings: ReplySettings) -> Conversation:
        """A dialogue that goes on."""
        return Conversation(self, model, settings)
