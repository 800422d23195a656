"""From the runs of a comparison to its verdicts: one for each variant and size.

    better, worse        the interval of the mean difference excludes 0, and p is below 0.05 after Holm's correction
    equivalent           the equivalence test against `effect` is below 0.05 after Holm's correction
    unstable             more of the variant's runs diverged than of the base's
    no difference found  none of these, though so many pairs would find `effect` with a power of 80 %; where no effect
                         is stated: not even four times as many pairs would find the difference that was seen
    inconclusive         the rest, also where all runs of both diverged

The family of Holm's correction is all variants at one size. The claim of a comparison is that at its largest size; the
smaller ones say how it changes with scale and are corrected among themselves. Who claims a difference at every size
needs no further correction, since all the tests must then agree (intersection-union; Berger 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..records import Arm, Outcome, Verdict, Word
from .claims import may_claim, may_not_claim
from .learning import unlearned
from .noise import noise_of_pairs
from .paired import (
    CERTAIN,
    Estimate,
    Part,
    bootstrap_interval,
    equivalence_p,
    holm,
    paired_test,
    sign_flip,
    unpaired_test,
)
from .pairs import Pairs, pair
from .power import LEVEL, detectable
from .rates import RateFit, fit_rates
from .scale import speedups, timed
from .sequential import is_hopeless, over_all_looks, stopped_early
from .terms import Case, Terms
from .wording import sentence_of

AFFORDABLE = 4  # times as many pairs: what is not found by them is called no difference, where no effect is stated


def judge(outcomes: Sequence[Outcome], arms: Sequence[Arm], terms: Terms) -> list[Verdict]:
    """The verdicts on all variants but the base, by size as the arms go. Raises MissingExtra without scipy and
    statsmodels."""
    base, lower, fits = terms.base, terms.lower, fit_rates(outcomes, arms, terms.lower)
    arms = timed(arms, outcomes, base)
    sizes = list(dict.fromkeys(arm.size for arm in arms))
    verdicts, known = [], {arm.arm_key: arm for arm in arms}
    for size in sizes:
        names = [arm.variant for arm in arms if arm.size == size and arm.variant != base]
        cases = [case_of(outcomes, name, size, terms, len(names), fits[size]) for name in names]
        p = holm([case.p for case in cases])
        early = unlearned(outcomes, known.get((base, size)), lower)
        same = iter(holm([case.equivalence for case in cases if case.equivalence is not None]))
        for case, p_holm in zip(cases, p, strict=True):
            equivalence = None if case.equivalence is None else next(same)
            both = tuple(known[name, size] for name in (base, case.variant) if (name, size) in known)
            case = replace(case, p=p_holm, equivalence=equivalence, sizes=len(sizes), arms=both, early=early)
            verdicts.append(verdict_of(case))
    faster = {name: speedups(outcomes, arms, name, base, lower, fits) for name in {v.variant for v in verdicts}}
    return [replace(v, speedup={} if v.word == "unstable" else faster[v.variant].get(v.size, {})) for v in verdicts]


def case_of(outcomes: Sequence[Outcome], variant: str, size: str, terms: Terms, family: int, fit: RateFit) -> Case:
    """What is known of a variant at one size, before it is corrected for the others."""
    pairs = pair(outcomes, variant, terms.base, size, terms.lower)
    rates = fit.error({variant: 1, terms.base: -1})
    estimate = estimate_of(pairs, terms, rates)
    values = [value for _, value in pairs.differences]
    same = equivalence_p(values, terms.effect, rates) if terms.effect and len(values) > 1 else None
    p = estimate.p if estimate else 1.0
    looks = terms.until_decided and estimate is not None and estimate.kind != "stopped"
    if looks:
        p = over_all_looks(p, len(values))
        same = None if same is None else over_all_looks(same, len(values))
    level = terms.level_at(len(values))
    sd = estimate.sd if estimate else None
    smallest = None if sd is None else detectable(sd, len(values), family, level=level, common=rates[0] ** 0.5)
    noise = noise_of_pairs(outcomes, variant, terms.base, size, pairs)
    noise |= {"rates": rates[0] ** 0.5} if rates[0] and noise else {}
    return Case(terms, variant, size, pairs, estimate, p, same, family, smallest, noise, rates, fit)


def estimate_of(pairs: Pairs, terms: Terms, rates: Part = CERTAIN) -> Estimate | None:
    """The mean difference by the best test that the runs allow: paired, unpaired, or by counts of divergence. `rates`:
    the variance that the learning rates add to it, see `rates.py`."""
    values = [value for _, value in pairs.differences]
    level = terms.level_at(len(values))
    lost, runs = pairs.count(of_base=True)
    if runs and 2 * lost >= runs and pairs.share() < pairs.share(of_base=True):
        return Estimate(None, None, pairs.same_share_p(), None, 0, "diverged")
    if len(values) > 1:
        return paired_test(values, level, rates)
    if values and terms.until_decided and terms.noise and is_hopeless(values[0], terms.noise, terms.lower):
        return stopped_early(values[0], terms.noise)
    if min(len(pairs.variant), len(pairs.base)) > 1:
        return unpaired_test([*pairs.variant.values()], [*pairs.base.values()], level, rates)
    return None


def word_of(case: Case) -> Word:
    """The verdict in one word, as the top of this file says."""
    estimate, pairs, terms = case.estimate, case.pairs, case.terms
    if pairs.share() > pairs.share(of_base=True):
        return "unstable"
    if estimate is None:
        return "inconclusive"
    if case.p < LEVEL and (estimate.kind == "diverged" or case.excludes_zero):
        return "better" if estimate.kind == "diverged" or case.gain > 0 else "worse"
    if case.equivalence is not None and case.equivalence < LEVEL:
        return "equivalent"
    if estimate.kind != "paired":
        return "inconclusive"
    if terms.effect is not None:
        enough = case.detectable is not None and case.detectable <= terms.effect
    else:
        needed = case.needed(estimate.sd or 0.0, abs(estimate.mean)) if estimate.mean else None
        enough = needed is None or needed > AFFORDABLE * estimate.pairs
    return "no difference found" if enough and not case.excludes_zero else "inconclusive"


def needed_for(case: Case) -> int | None:
    """Pairs that would decide it: that find the effect, or where none is stated the difference that was seen."""
    estimate, terms = case.estimate, case.terms
    sd = estimate.sd if estimate and estimate.sd else terms.noise.difference if terms.noise else None
    mean = abs(estimate.mean) if estimate and estimate.mean else None
    target = mean if case.excludes_zero else terms.effect or mean
    if not sd or not target or case.pairs.none_ended:
        return None
    needed = case.needed(sd, target)
    return None if needed is None else max(needed, len(case.pairs.seeds) + 1)


def verdict_of(case: Case) -> Verdict:
    word, terms = word_of(case), case.terms
    values = [value for _, value in case.pairs.differences]
    estimate = case.estimate or Estimate(None, None, 1.0, None, 0)
    verdict = Verdict(
        case.variant,
        terms.base,
        case.size,
        word,
        "",
        differences=case.pairs.differences,
        mean=estimate.mean,
        gain=None if estimate.mean is None else case.gain,
        interval=estimate.interval,
        p=estimate.p if case.estimate else None,
        p_holm=case.p if case.estimate else None,
        sign_flip=sign_flip(values, case.rates) if len(values) > 1 else None,
        bca=bootstrap_interval(values, common=case.rates),
        equivalence=case.equivalence,
        effect=terms.effect,
        noise=case.noise,
        diverged=case.pairs.count(),
        base_diverged=case.pairs.count(of_base=True),
        needed=needed_for(case) if word == "inconclusive" else None,
        detectable=case.detectable,
        early=case.early.steps if case.early else 0,
    )
    may, may_not = may_claim(verdict, case), may_not_claim(verdict, case)
    return replace(verdict, sentence=sentence_of(verdict, case), may=may, may_not=may_not)
