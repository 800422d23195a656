"""The losses of preferences equal what the papers' equations give, written out token by token in float64."""

import math

import pytest
import torch

from transformula.tasks.preference_losses import BETAS, COMPARING, LOSSES, MEANS, LossOptions, Said, log_one_less

PAIRS, LENGTH, VOCAB = 5, 7, 11


@pytest.fixture(scope="module")
def drawn():
    """Logits of a model and of a reference, the tokens of replies, and which of them count."""
    torch.manual_seed(3)
    logits, reference = torch.randn(2, PAIRS, 2, LENGTH, VOCAB, dtype=torch.float64)
    tokens = torch.randint(VOCAB, (PAIRS, 2, LENGTH))
    sizes = torch.randint(1, LENGTH, (PAIRS, 2))
    return logits, reference, tokens, torch.arange(LENGTH) < sizes[..., None]


def log_p(logits, tokens, counted):
    """The log probability of each token that counts: a list for each reply of each pair."""
    rows = []
    for pair in range(PAIRS):
        rows.append([])
        for side in range(2):
            each = []
            for place in range(LENGTH):
                if counted[pair, side, place]:
                    row = logits[pair, side, place].tolist()
                    each.append(row[tokens[pair, side, place]] - math.log(sum(map(math.exp, row))))
            rows[-1].append(each)
    return rows


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def by_hand(loss, ours, theirs, options):
    """The loss of one pair: `ours` and `theirs` are the log P of the tokens of both replies."""
    mean = lambda each: sum(each) / len(each)  # noqa: E731
    beta, gamma, e, means = options
    value = mean if means else sum
    if loss == "dpo":  # Rafailov et al. 2023, equation 7; with e cDPO (Mitchell 2023), as trl's label_smoothing
        h = (value(ours[0]) - value(theirs[0])) - (value(ours[1]) - value(theirs[1]))
        return -(1 - e) * math.log(sigmoid(beta * h)) - e * math.log(sigmoid(-beta * h))
    if loss == "ipo":  # Azar et al. 2023, equation 17; trl takes means of log P
        h = (value(ours[0]) - value(theirs[0])) - (value(ours[1]) - value(theirs[1]))
        return (h - 1 / (2 * beta)) ** 2
    if loss == "simpo":  # Meng et al. 2024, equation 6, as trl's CPOTrainer has it with simpo_gamma
        z = beta * (mean(ours[0]) - mean(ours[1])) - gamma
        return -(1 - e) * math.log(sigmoid(z)) - e * math.log(sigmoid(-z))
    if loss == "orpo":  # Hong et al. 2024, equations 5 to 7; beta is their lambda
        p = [math.exp(mean(each)) for each in ours]
        odds = [each / (1 - each) for each in p]
        return -mean(ours[0]) - beta * math.log(sigmoid(math.log(odds[0] / odds[1])))
    return -mean(ours[0])


@pytest.mark.parametrize(("loss", "smoothing"), [*((name, 0.0) for name in LOSSES), ("dpo", 0.2), ("simpo", 0.1)])
@pytest.mark.parametrize("other_way", [False, True])
def test_losses_are_those_of_the_papers(drawn, loss, smoothing, other_way):
    logits, reference, tokens, counted = drawn
    means = (loss in MEANS) != (other_way and loss in COMPARING)
    options = LossOptions(0.3 if other_way else BETAS[loss], 0.7, smoothing, means)
    sums = [
        (each.log_softmax(-1).gather(-1, tokens[..., None])[..., 0] * counted).sum(-1) for each in (logits, reference)
    ]
    ours = LOSSES[loss](Said(*sums, counted.sum(-1)), options)
    each, before = log_p(logits, tokens, counted), log_p(reference, tokens, counted)
    wanted = [by_hand(loss, one, other, options) for one, other in zip(each, before, strict=True)]
    assert ours.tolist() == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_trl_takes_sums_for_dpo_and_means_for_the_others():
    assert MEANS == {"ipo", "orpo", "simpo"} and {"dpo", "ipo"} == COMPARING
    assert BETAS["dpo"] == BETAS["ipo"] == BETAS["orpo"] == 0.1


def test_a_reply_that_is_certain_has_finite_odds():
    sums = torch.zeros(1, 2, requires_grad=True)
    loss = LOSSES["orpo"](Said(sums, torch.zeros(1, 2), torch.ones(1, 2)), LossOptions(0.1))
    loss.sum().backward()
    assert loss.isfinite().all() and sums.grad.isfinite().all()
    assert float(log_one_less(torch.tensor(-2.0))) == pytest.approx(math.log(1 - math.exp(-2)), rel=1e-6)
