"""The losses of a trained language model in windows of several lengths."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ..tasks.base import Task
from ..tasks.language_modeling import LanguageModeling
from ..tasks.loss_by_token import losses_in_windows
from ..tasks.scores.by_token import WindowLosses


def window_losses_of(
    task: Task, model: nn.Module, contexts: Sequence[int], known: Sequence[WindowLosses] = ()
) -> tuple[WindowLosses, ...]:
    """The losses in windows as long as those of training, of each of these lengths, and those that are known, the
    shortest first; nothing for a task that does not predict the tokens of a text."""
    if not isinstance(task, LanguageModeling):
        return ()
    windows = {window.context: window for window in known}
    missing = [context for context in contexts if context not in windows]
    made = losses_in_windows(task.scored, task.by_logits(model), missing)
    windows |= {window.context: window for window in made}
    return tuple(windows[context] for context in sorted(windows))
