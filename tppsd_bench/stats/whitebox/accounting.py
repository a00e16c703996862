"""accounting: the trace's records, rounds and counts must tell one story, and the story must be the declared rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tppsd_bench.protocols import (
    ALLOWED_ROLES,
    COMPONENT_EVENT,
    COMPONENT_GAP,
    COMPONENT_TYPE,
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    BoolArray,
    Counts,
    IntArray,
    Trace,
)
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.whitebox.contexts import Contexts


def accounting(c: Contexts, counts: Counts, *, measured: Counts | None = None) -> list[Evidence]:
    """Identities between verifications, roles, rounds and totals; deterministic.

    generated = accepted + type-replaced + gap-replaced + bonus, so a round generates its accepted events and at most one more;
    emitted = generated - discarded past the stop; nothing is kept after a rejection; every emitted proposal was verified and
    every record agrees with the event it decided; totals equal the recount; residual give-ups are 0. ``measured`` is a second,
    independent counter of forwards (a hook): it must agree with ``counts``.
    """
    out = [_roles(c), _last_of_round(c), _rounds(c), *_records(c)]
    if counts.rounds:
        out += [_totals(c.trace, counts), _give_ups(counts)]
    if measured is not None:
        out.append(_forwards(counts, measured))
    return out


def _roles(c: Contexts) -> Evidence:
    t = c.trace
    pairs = [(int(a), int(b)) for a, b in zip(t.gap_role, t.type_role, strict=True)]
    legal = ALLOWED_ROLES
    if c.rule == "leviathan_joint":
        legal = ALLOWED_ROLES - {(ROLE_ACCEPTED, ROLE_RESIDUAL), (ROLE_RESIDUAL, ROLE_TARGET)}
    elif c.n_types > 1:
        legal = ALLOWED_ROLES - {(ROLE_RESIDUAL, ROLE_RESIDUAL)}
    wrong = np.array([pair not in legal for pair in pairs], dtype=bool)
    names = {ROLE_ACCEPTED: "accepted", ROLE_RESIDUAL: "residual", ROLE_TARGET: "target"}

    def said(i: int) -> str:
        a, b = (names.get(r, str(r)) for r in pairs[i])
        return f"{c.event_said(i)}: gap {a} with type {b} is no outcome of {c.rule}"

    return _evidence("roles", wrong, said)


def _last_of_round(c: Contexts) -> Evidence:
    """An event that follows a replaced or bonus event of the same round was kept after a rejection."""
    t, e = c.trace, c.events
    same_round = (np.diff(e.sequence_index) == 0) & (np.diff(t.event_round) == 0)
    ended = (t.gap_role != ROLE_ACCEPTED) | (t.type_role != ROLE_ACCEPTED)
    wrong = np.concatenate([[False], same_round & ended[:-1]]) if e.n_events else np.zeros(0, dtype=bool)
    return _evidence("nothing_after_rejection", wrong, lambda i: f"{c.event_said(i)} was kept after its round had ended")


def _rounds(c: Contexts) -> Evidence:
    """accepted <= verified <= drafted; generated is accepted or accepted + 1; emitted events match round by round.

    Accepted counts verified events, and verification ends at the event that crosses the stop: what a round drew beyond it is
    generated and discarded without being counted as accepted.
    """
    t, e = c.trace, c.events
    generated = t.round_committed + t.round_discarded
    extra = generated - t.round_accepted
    accepted = (t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_ACCEPTED)
    emitted = _per_round(t, e.sequence_index, t.event_round, None)
    kept = _per_round(t, e.sequence_index, t.event_round, accepted)
    checks = (
        ("accepted more than verified", t.round_accepted > t.round_verified),
        ("verified more than drafted", t.round_verified > t.round_drafted),
        ("generated is not accepted, or accepted plus one", (extra < 0) | (extra > 1 + t.round_discarded)),
        ("generated more than drafted plus one", generated > t.round_drafted + 1),
        ("committed is not the number of its events", t.round_committed != emitted),
        (
            "accepted is not the number of its accepted events",
            (t.round_accepted < kept) | (t.round_accepted > kept + t.round_discarded),
        ),
    )
    wrong = np.any([bad for _, bad in checks], axis=0)

    def said(i: int) -> str:
        what = next(name for name, bad in checks if bad[i])
        return (
            f"sequence {t.round_sequence[i]}, round {t.round_index[i]}: {what} (drafted {t.round_drafted[i]}, verified "
            f"{t.round_verified[i]}, accepted {t.round_accepted[i]}, committed {t.round_committed[i]}, discarded "
            f"{t.round_discarded[i]}, events {emitted[i]}, of them accepted {kept[i]})"
        )

    return _evidence("rounds", wrong, said)


def _records(c: Contexts) -> list[Evidence]:
    """Each component's role against the record that decided it: no record without role, no role without record."""
    joint = c.rule == "leviathan_joint"
    out = [_component(c, COMPONENT_EVENT if joint else COMPONENT_GAP, "event" if joint else "gap", c.trace.gap_role)]
    if not joint and c.n_types > 1:
        out.append(_component(c, COMPONENT_TYPE, "type", c.trace.type_role))
    return out


def _component(c: Contexts, component: int, name: str, role: IntArray | np.ndarray[tuple[int], np.dtype[np.int8]]) -> Evidence:
    t, e = c.trace, c.events
    at = np.flatnonzero((t.component == component) & (t.event < e.lengths[t.sequence]))
    flat = e.offsets[t.sequence[at]] + t.event[at]
    times = np.bincount(flat, minlength=e.n_events)
    record = np.full(e.n_events, -1, dtype=np.int64)
    record[flat] = at
    seen = record >= 0
    needs = role != ROLE_TARGET
    changed = np.zeros(e.n_events, dtype=bool)
    kept = np.flatnonzero(seen & (role == ROLE_ACCEPTED))
    if component != COMPONENT_TYPE:
        changed[kept] |= t.gap[record[kept]] != e.gaps[kept]
    if component != COMPONENT_GAP:
        changed[kept] |= t.type[record[kept]] != e.types[kept]
    checks = (
        (f"its {name} counts as {{role}} but was never verified", needs & ~seen),
        (f"its {name} was verified but counts as {{role}}", ~needs & seen),
        (f"its {name} was verified more than once", times > 1),
        (f"its {name} counts as {{role}} but the record says the opposite",
         seen & needs & (t.accepted[record] != (role == ROLE_ACCEPTED)) if len(t.event) else needs & seen),
        (f"its {name} counts as {{role}} but is not the proposal", changed),
        ("it stands at another position or round than its record",
         seen & ((t.position[record] != t.event_position) | (t.round[record] != t.event_round)) if len(t.event) else changed),
    )  # fmt: skip
    wrong = np.any([bad for _, bad in checks], axis=0)
    names = {ROLE_ACCEPTED: "accepted", ROLE_RESIDUAL: "residual", ROLE_TARGET: "target"}

    def said(i: int) -> str:
        what = next(text for text, bad in checks if bad[i])
        return f"{c.event_said(i)}: {what.format(role=names.get(int(role[i]), role[i]))}"

    return _evidence(f"records.{name}", wrong, said)


def _totals(t: Trace, counts: Counts) -> Evidence:
    recount = {
        "rounds": len(t.round_index),
        "drafted": int(t.round_drafted.sum()),
        "verified": int(t.round_verified.sum()),
        "accepted": int(t.round_accepted.sum()),
        "committed": int(t.round_committed.sum()),
        "discarded": int(t.round_discarded.sum()),
    }
    names = list(recount)
    wrong = np.array([getattr(counts, name) != value for name, value in recount.items()])

    def said(i: int) -> str:
        return f"the sampler reports {getattr(counts, names[i])} {names[i]}, its rounds add up to {recount[names[i]]}"

    return _evidence("totals", wrong, said)


def _give_ups(counts: Counts) -> Evidence:
    wrong = np.array([counts.residual_give_ups != 0])
    return _evidence(
        "residual_give_ups",
        wrong,
        lambda _: f"{counts.residual_give_ups} residual draws were given up for something else; expected 0",
    )


def _forwards(counts: Counts, measured: Counts) -> Evidence:
    names = ("target_calls", "target_row_forwards", "draft_calls", "draft_row_forwards")
    wrong = np.array([getattr(counts, name) != getattr(measured, name) for name in names])
    return _evidence(
        "forwards",
        wrong,
        lambda i: (
            f"the sampler counts {getattr(counts, names[i])} {names[i]}, the independent counter {getattr(measured, names[i])}"
        ),
    )


def _per_round(t: Trace, sequence: IntArray, round: IntArray, keep: BoolArray | None) -> IntArray:
    """Events per round, aligned with the round records; events of a round without record fall away (and differ in sum)."""
    width = int(max(t.round_index.max(initial=0), round.max(initial=0))) + 1
    key = sequence * width + round
    counted = np.bincount(key if keep is None else key[keep], minlength=(int(t.round_sequence.max(initial=0)) + 1) * width)
    out: IntArray = counted[t.round_sequence * width + t.round_index]
    return out


def _evidence(name: str, wrong: BoolArray, said: Callable[[int], str]) -> Evidence:
    found = np.flatnonzero(wrong)
    detail = ""
    if len(found):
        detail = f"{said(int(found[0]))}; {len(found)} such"
    return Evidence(
        f"accounting.{name}",
        Axis.MECHANISM,
        passed=not len(found),
        statistic=float(len(found)),
        n=len(wrong),
        null="none",
        method="deterministic recount",
        detail=detail,
    )
