"""A trace from what a sampler has at hand in each round."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    COMPONENT_EVENT,
    COMPONENT_GAP,
    COMPONENT_TYPE,
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    BoolArray,
    Counts,
    FloatArray,
    IntArray,
    SampleRun,
    Trace,
)


@dataclass
class _Round:
    """Rows of one call of ``TraceBuilder.round``: (r,) and (r, K) arrays."""

    sequence: IntArray
    drafted: IntArray
    gaps: FloatArray
    types: IntArray
    log_p: FloatArray
    log_q: FloatArray
    gap_accepted: BoolArray
    type_log_p: FloatArray
    type_log_q: FloatArray
    type_accepted: BoolArray
    bonus: bool


class TraceBuilder:
    """A ``Trace`` from what a sampler has at hand in each round: proposals, log p, log q, what was accepted.

    Roles, positions, histories and totals follow from these under the rule of speculative sampling: a round ends at its first
    rejection, which is replaced; if nothing is rejected one bonus event comes from the target. ``joint``: gap and type are
    verified as one (``leviathan_joint``), with log p and log q of both together.
    """

    def __init__(self, *, joint: bool = False) -> None:
        self._joint, self._rounds, self._typed = joint, list[_Round](), False

    def round(
        self, sequence: ArrayLike, gaps: ArrayLike, log_p: ArrayLike, log_q: ArrayLike, accepted: ArrayLike, *,
        types: ArrayLike | None = None, type_log_p: ArrayLike | None = None, type_log_q: ArrayLike | None = None,
        type_accepted: ArrayLike | None = None, drafted: ArrayLike | None = None, bonus: bool = True,
    ) -> None:  # fmt: skip
        """One round of the named sequences (r,).

        Args:
            sequence: (r,) 0-based within the request. gaps, types: (r, K) the proposals.
            log_p, log_q: (r, K) log densities of the gaps (``joint``: of gap and type). accepted: (r, K) bools.
            type_log_p, type_log_q, type_accepted: (r, K) the same for the types given the gap; left out with one type.
            drafted: (r,) how many columns count, where not all do. bonus: whether a round without rejection adds an event.

        Entries after a row's first rejection are ignored. Sequences that have reached their stop may go on; the rest is dropped.
        """
        rows = np.atleast_1d(np.asarray(sequence, dtype=np.int64))
        shape = (len(rows), np.asarray(gaps).size // max(len(rows), 1))

        def table(values: ArrayLike | None, dtype: type, fill: Any = 0) -> Any:
            return np.full(shape, fill, dtype=dtype) if values is None else np.asarray(values).astype(dtype).reshape(shape)

        k = np.full(len(rows), shape[1]) if drafted is None else np.asarray(drafted, dtype=np.int64)
        self._typed |= type_accepted is not None
        made = _Round(
            rows, k, table(gaps, np.float64), table(types, np.int64), table(log_p, np.float64), table(log_q, np.float64),
            table(accepted, np.bool_), table(type_log_p, np.float64), table(type_log_q, np.float64),
            table(type_accepted, np.bool_, True), bonus,
        )  # fmt: skip
        self._rounds.append(made)

    def run(self, events: EventBatch, **counts: int) -> SampleRun:
        """Events, counts and trace as a ``SampleRun``. One target pass a round and one draft pass a drafted event are
        counted; other numbers of ``Counts`` can be given by name."""
        trace = self.build(events)
        rounds, drafted = len(trace.round_index), int(trace.round_drafted.sum())
        counted = Counts(
            target_calls=len(self._rounds), target_row_forwards=rounds, target_positions=rounds + drafted,
            draft_calls=sum(r.gaps.shape[1] for r in self._rounds), draft_row_forwards=drafted, draft_positions=drafted,
            rounds=rounds, drafted=drafted, verified=int(trace.round_verified.sum()),
            accepted=int(trace.round_accepted.sum()), committed=events.n_events, discarded=int(trace.round_discarded.sum()),
        )  # fmt: skip
        return SampleRun(events, replace(counted, **counts), trace)

    def build(self, events: EventBatch) -> Trace:
        """The trace of ``events``; InputError where the rounds do not add up to them."""
        r = self._table(len(events))
        n_accepted = _leading(r["gap_accepted"] & r["type_accepted"], r["drafted"])
        offered = n_accepted + ((n_accepted < r["drafted"]) | r["bonus"])
        base = np.cumsum(offered) - offered
        starts = np.searchsorted(r["sequence"], np.arange(len(events)))
        base = base - np.concatenate([base, [0]])[starts][r["sequence"]] if len(base) else base
        room = events.lengths[r["sequence"]] - base
        used = room > 0 if events.horizon is None else room >= 0
        kept = np.clip(room, 0, offered)
        found = np.bincount(r["sequence"][used], weights=kept[used], minlength=len(events)).astype(np.int64)
        if (found != events.lengths).any():
            i = int(np.argmax(found != events.lengths))
            raise InputError(
                f"Sequence {i} has {events.lengths[i]} events but its rounds produced {found[i]}; call round() once for every "
                "round of every sequence, in order."
            )
        r = {name: values[used] for name, values in r.items()} | {
            "n_accepted": n_accepted[used], "offered": offered[used], "base": base[used], "kept": kept[used],
            "index": (np.arange(len(used)) - starts[r["sequence"]])[used],
        }  # fmt: skip
        within = r["kept"] + (events.horizon is not None)
        r["verified"] = np.minimum(np.minimum(r["n_accepted"] + 1, r["drafted"]), within)
        return Trace(**self._verifications(r), **self._events(r), **_per_round(r), **_crossings(r, events))

    def _table(self, n: int) -> dict[str, NDArray[Any]]:
        """All rounds' rows below each other, (R,) and (R, K_max), sorted by sequence and time."""
        width = max((r.gaps.shape[1] for r in self._rounds), default=0)

        def joined(name: str) -> NDArray[Any]:
            values = [getattr(r, name) for r in self._rounds]
            if values and values[0].ndim == 2:
                values = [np.pad(v, ((0, 0), (0, width - v.shape[1]))) for v in values]
            return np.concatenate(values) if values else np.empty(0, dtype=np.int64)

        out = {f.name: joined(f.name) for f in dataclasses.fields(_Round) if f.name != "bonus"}
        out["bonus"] = np.repeat([r.bonus for r in self._rounds], [len(r.sequence) for r in self._rounds])
        wrong = np.flatnonzero((out["sequence"] < 0) | (out["sequence"] >= n))
        if len(wrong):
            raise InputError(f"A round names sequence {out['sequence'][wrong[0]]}; the run has sequences 0..{n - 1}.")
        order = np.argsort(out["sequence"], kind="stable")
        return {name: values[order] for name, values in out.items()}

    def _verifications(self, r: dict[str, NDArray[Any]]) -> dict[str, Any]:
        row, position = np.nonzero(np.arange(r["gaps"].shape[1]) < r["verified"][:, None])
        typed = r["gap_accepted"][row, position] if self._typed and not self._joint else np.zeros(len(row), dtype=np.bool_)
        rows, at = np.repeat(row, 1 + typed), np.repeat(position, 1 + typed)
        second = np.zeros(len(rows), dtype=np.bool_)
        second[np.cumsum(1 + typed)[typed] - 1] = True
        first = COMPONENT_EVENT if self._joint else COMPONENT_GAP

        def chosen(of_type: str, of_gap: str) -> NDArray[Any]:
            return np.where(second, r[of_type][rows, at], r[of_gap][rows, at])

        return {
            "sequence": r["sequence"][rows], "event": r["base"][rows] + at, "round": r["index"][rows], "position": at,
            "k_round": r["drafted"][rows], "component": np.where(second, COMPONENT_TYPE, first).astype(np.int8),
            "gap": r["gaps"][rows, at], "type": np.where(second | self._joint, r["types"][rows, at], -1),
            "log_p": chosen("type_log_p", "log_p"), "log_q": chosen("type_log_q", "log_q"),
            "accepted": chosen("type_accepted", "gap_accepted"),
        }  # fmt: skip

    def _events(self, r: dict[str, NDArray[Any]]) -> dict[str, Any]:
        row = np.repeat(np.arange(len(r["kept"])), r["kept"])
        position = np.arange(len(row)) - np.repeat(np.cumsum(r["kept"]) - r["kept"], r["kept"])
        bonus = position == r["drafted"][row]
        replaced = (position == r["n_accepted"][row]) & ~bonus
        column = np.minimum(position, max(r["gaps"].shape[1] - 1, 0))
        gap_kept = r["gap_accepted"][row, column] & (not self._joint) if r["gaps"].shape[1] else bonus
        gap_role = np.select([bonus, replaced & ~gap_kept], [ROLE_TARGET, ROLE_RESIDUAL], ROLE_ACCEPTED)
        after_gap = ROLE_RESIDUAL if self._joint else ROLE_TARGET
        type_role = np.select([bonus, replaced & ~gap_kept, replaced], [ROLE_TARGET, after_gap, ROLE_RESIDUAL], ROLE_ACCEPTED)
        return {
            "gap_role": gap_role.astype(np.int8), "type_role": type_role.astype(np.int8), "event_round": r["index"][row],
            "event_position": position, "event_k": r["drafted"][row],
        }  # fmt: skip


def _leading(accepted: BoolArray, drafted: IntArray) -> IntArray:
    """(r,) how many of the first ``drafted`` columns are accepted before the first that is not."""
    refused = ~accepted & (np.arange(accepted.shape[1]) < drafted[:, None])
    if not accepted.shape[1]:
        return np.zeros(len(accepted), dtype=np.int64)
    first: IntArray = np.where(refused.any(axis=1), refused.argmax(axis=1), drafted)
    return first


def _per_round(r: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {
        "round_sequence": r["sequence"], "round_index": r["index"], "round_drafted": r["drafted"],
        "round_verified": r["verified"], "round_accepted": np.minimum(r["n_accepted"], r["verified"]),
        "round_committed": r["kept"], "round_discarded": r["offered"] - r["kept"],
    }  # fmt: skip


def _crossings(r: dict[str, NDArray[Any]], events: EventBatch) -> dict[str, Any]:
    """Where the draw that crossed the horizon stood, per sequence."""
    if events.horizon is None:
        return {}
    crossed = r["offered"] > r["kept"]
    position, k = np.zeros(len(events), dtype=np.int64), np.zeros(len(events), dtype=np.int64)
    position[r["sequence"][crossed]] = r["kept"][crossed]
    k[r["sequence"][crossed]] = r["drafted"][crossed]
    return {"crossing_position": position, "crossing_k": k}
