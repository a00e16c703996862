"""The black-box battery: evidence from sequences alone, the sampler under test against the target-only sampler."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch, FloatArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.blackbox.arms import ArmRows
from tppsd_bench.stats.blackbox.effects import Effect
from tppsd_bench.stats.blackbox.maxt import MaxT, Member, PermutationGroup, group_by_reference, max_t, smallest_p

Arms = tuple[EventBatch, EventBatch]
_TELLING_LENGTH = 8  # events from which two equal sequences of a continuous law cannot be chance


def blackbox_battery(
    cells: Mapping[str, Arms],
    rng: Generator,
    *,
    n_permutations: int = budget.PERMUTATIONS,
    log_likelihood: Mapping[str, tuple[FloatArray, FloatArray]] | None = None,
    shared_reference: bool = False,
) -> list[Evidence]:
    """Two-sample tests of (SUT, reference) arms by permuting whole sequences: one maxT p over all cells, the rest display.

    Assumes the sequences of an arm are independent and identically distributed draws, and the arms independent of each other;
    events inside a sequence may depend in any way. ``log_likelihood[cell]``: each sequence's log-likelihood (n,) in nats under
    the target, per arm. ``shared_reference``: cells with the same reference arm hold draws of one law under the null (one
    target, one stop rule); their SUT arms and the reference are permuted jointly (``maxt.PermutationGroup``).
    ``n_permutations`` is B.

    Returns, on axis LAW, ``blackbox.maxT`` (decides) and ``blackbox.<statistic>`` for every cell (display; p-values are
    maxT-adjusted), and on axis VALIDITY ``blackbox.arms_independent`` for every cell.
    Raises InputError for empty arms, arms of which one alone has a horizon, and unflagged common references.
    """
    _check(cells, shared_reference)
    names = group_by_reference({name: reference for name, (_, reference) in cells.items()})
    groups = []
    for members in names:
        arms = [cells[name][0] for name in members] + [cells[members[0]][1]]
        groups.append(PermutationGroup.of(members, arms, rng, _group_log_likelihood(members, log_likelihood or {})))
    alarm = budget.confirmation_thresholds(budget.PERMUTATION_LEVEL)[0][1]
    result = max_t(groups, n_permutations, rng, critical_level=max(alarm, 1 / (1 + n_permutations)))
    rows = {cell: group.rows(c) for group in groups for c, cell in enumerate(group.cells)}
    displayed = []
    for member in result.members:
        arms_of = rows[member.cell]
        displayed.append(_display(member, member.statistic.effect(arms_of, member.value, member.null), arms_of, result))
    return [_decision(result, cells), *displayed, *(_independence(name, arms) for name, arms in cells.items())]


def _decision(result: MaxT, cells: Mapping[str, Arms]) -> Evidence:
    least = max(smallest_p(len(sut), len(reference), result.n_permutations) for sut, reference in cells.values())
    detail = "No statistic varies under permutation: there is nothing to compare."
    if result.members:
        worst = max(result.members, key=lambda m: m.z)
        detail = f"Largest: {worst.statistic.name} in cell {worst.cell}."
    if least > 1 / (1 + result.n_permutations):
        detail += f" With so few sequences no p-value can be below {least:.2g}; draw at least 10 per arm."
    return Evidence(
        "blackbox.maxT",
        Axis.LAW,
        p_value=result.p_value,
        statistic=result.z,
        n=sum(len(sut) for sut, _ in cells.values()),
        null=f"{result.n_permutations} permutations of whole sequences",
        method=f"maximum of {len(result.members)} standardised statistics over {len(cells)} cells; p = (1 + #) / (1 + B)",
        detail=detail,
    )


def _display(member: Member, effect: Effect, arms: ArmRows, result: MaxT) -> Evidence:
    detail = f"Unadjusted p = {member.p_single:.2g}."
    if effect.note:
        detail += f" {effect.note[0].upper()}{effect.note[1:]}."
    return Evidence(
        f"blackbox.{member.statistic.name}",
        Axis.LAW,
        p_value=member.p_adjusted,
        statistic=member.z,
        n=min(len(arms.sut), len(arms.reference)),
        effect=effect.estimate,
        effect_name=member.statistic.effect_name,
        interval=effect.interval,
        min_detectable=member.statistic.detectable(member.critical, member.null),
        null=f"{result.n_permutations} permutations of whole sequences",
        method="maxT-adjusted over all statistics and cells (Westfall and Young 1993)",
        where={"cell": member.cell, **effect.where},
        display=True,
        detail=detail,
    )


def _independence(name: str, arms: Arms) -> Evidence:
    """Two arms of a continuous law share no sequence unless they share seeds or are the same file."""
    sut, reference = (set(_long_sequences(batch)) for batch in arms)
    n_shared = len(sut & reference)
    mend = "sequences of the sampler under test are also in the reference arm: draw the arms from different streams."
    return Evidence(
        "blackbox.arms_independent",
        Axis.VALIDITY,
        passed=n_shared == 0,
        statistic=float(n_shared),
        n=len(arms[0]),
        method=f"sequences of {_TELLING_LENGTH} or more events that are bit-identical in both arms",
        where={"cell": name},
        detail=f"{n_shared} {mend}" if n_shared else "",
    )


def _long_sequences(batch: EventBatch) -> list[bytes]:
    ends = zip(batch.offsets[:-1], batch.offsets[1:], strict=True)
    return [batch.gaps[a:b].tobytes() for a, b in ends if b - a >= _TELLING_LENGTH]


def _group_log_likelihood(members: list[str], given: Mapping[str, tuple[FloatArray, FloatArray]]) -> list[FloatArray] | None:
    present = [name for name in members if name in given]
    if not present:
        return None
    if len(present) < len(members):
        missing = sorted(set(members) - set(present))
        raise InputError(f"Cells {missing} share a reference with {present} but have no log-likelihoods; give all or none.")
    return [np.asarray(given[name][0], dtype=np.float64) for name in members] + [np.asarray(given[members[0]][1])]


def _check(cells: Mapping[str, Arms], shared_reference: bool) -> None:
    if not cells:
        raise InputError("The black-box battery was given no cells; expected at least one pair of arms.")
    for name, (sut, reference) in cells.items():
        for arm, batch in (("sampler under test", sut), ("reference", reference)):
            if not len(batch):
                raise InputError(f"Cell {name}: the {arm} has no sequences; expected at least one (200 for real power).")
        if (sut.horizon is None) != (reference.horizon is None):
            raise InputError(f"Cell {name}: one arm has a horizon and the other has none; draw both with the same stop rule.")
    if shared_reference:
        return
    common = [g for g in group_by_reference({name: r for name, (_, r) in cells.items()}) if len(g) > 1]
    if common:
        raise InputError(
            f"Cells {common[0]} have the same reference arm; pass shared_reference=True (their permutations must be joint) "
            "or draw a reference for each."
        )
