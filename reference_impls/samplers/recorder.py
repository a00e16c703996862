"""The trace of a speculative run, collected round by round as arrays and flattened once at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_impls.samplers.verification import Verification
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    COMPONENT_EVENT,
    COMPONENT_GAP,
    COMPONENT_TYPE,
    ROLE_ACCEPTED,
    BoolArray,
    Counts,
    FloatArray,
    IntArray,
    Trace,
)


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round of all rows: (n,) and (n, K) arrays."""

    ids: IntArray
    active: BoolArray
    index: int
    base: IntArray
    """Generated events before the round."""
    k: IntArray
    n_accepted: IntArray
    gaps: FloatArray
    types: IntArray
    verified: Verification
    gap_role: NDArray[np.int8]
    type_role: NDArray[np.int8]
    kept: IntArray
    """Events committed within the stop."""
    offered: IntArray
    """Events the round produced."""

    def n_verified(self) -> IntArray:
        """Positions verified: up to the first rejection, and not beyond the event that crossed the stop (n,)."""
        reached = np.minimum(self.n_accepted + 1, self.k)
        return np.where(self.active, np.minimum(reached, self.kept + 1), 0)

    def n_accepted_within(self) -> IntArray:
        return np.where(self.active, np.minimum(self.n_accepted, self.n_verified()), 0)

    def add_to(self, counts: Counts) -> None:
        """Add the round's totals."""
        counts.rounds += int(self.active.sum())
        counts.verified += int(self.n_verified().sum())
        counts.accepted += int(self.n_accepted_within().sum())
        counts.committed += int(self.kept.sum())
        counts.discarded += int((self.offered - self.kept).sum())


class Recorder:
    def __init__(self, joint: bool, n_types: int) -> None:
        self._joint, self._n_types = joint, n_types
        self._rounds: list[RoundRecord] = []

    def add(self, record: RoundRecord) -> None:
        self._rounds.append(record)

    def trace(self, events: EventBatch) -> Trace:
        rounds = self._stack()
        order = np.lexsort((rounds["index"], rounds["ids"]))
        order = order[rounds["active"][order]]
        r = {name: value[order] for name, value in rounds.items()}
        return Trace(**self._verifications(r), **self._events(r), **self._per_round(r), **self._crossings(r, events))

    def _stack(self) -> dict[str, Any]:
        """All rounds' rows below each other, (R,) and (R, K_max)."""
        k_max = max(r.gaps.shape[1] for r in self._rounds)

        def wide(values: list[Any], fill: Any) -> Any:
            return np.concatenate(
                [
                    np.pad(v, ((0, 0), (0, k_max - v.shape[1])), constant_values=fill) if v.shape[1] < k_max else v
                    for v in values
                ]
            )

        narrow = {
            name: np.concatenate([getattr(r, name) for r in self._rounds])
            for name in ("ids", "active", "base", "k", "n_accepted", "gap_role", "type_role", "kept", "offered")
        }
        narrow["index"] = np.concatenate([np.full(len(r.ids), r.index) for r in self._rounds])
        narrow["n_verified"] = np.concatenate([r.n_verified() for r in self._rounds])
        narrow["within"] = np.concatenate([r.n_accepted_within() for r in self._rounds])
        narrow["gaps"] = wide([r.gaps for r in self._rounds], 1.0)
        narrow["types"] = wide([r.types for r in self._rounds], 0)
        for name in ("log_p_gap", "log_q_gap", "log_p_type", "log_q_type", "gap_accepted", "type_accepted"):
            narrow[name] = wide([getattr(r.verified, name) for r in self._rounds], 0)
        return narrow

    def _verifications(self, r: dict[str, Any]) -> dict[str, Any]:
        k_max = r["gaps"].shape[1]
        reached = np.arange(k_max) < r["n_verified"][:, None]
        row, position = np.nonzero(reached)
        parts = []
        gap_ok = r["gap_accepted"][row, position].astype(bool)
        if self._joint:
            parts.append((row, position, COMPONENT_EVENT, r["types"][row, position], "log_p_gap", "log_q_gap", gap_ok))
        else:
            parts.append((row, position, COMPONENT_GAP, np.full(len(row), -1), "log_p_gap", "log_q_gap", gap_ok))
            if self._n_types > 1:
                row2, position2 = row[gap_ok], position[gap_ok]
                ok = r["type_accepted"][row2, position2].astype(bool)
                parts.append((row2, position2, COMPONENT_TYPE, r["types"][row2, position2], "log_p_type", "log_q_type", ok))
        rows = np.concatenate([p[0] for p in parts])
        positions = np.concatenate([p[1] for p in parts])
        component = np.concatenate([np.full(len(p[0]), p[2], dtype=np.int8) for p in parts])
        order = np.lexsort((component, positions, rows))
        return {
            "sequence": r["ids"][rows][order],
            "event": (r["base"][rows] + positions)[order],
            "round": r["index"][rows][order],
            "position": positions[order],
            "k_round": r["k"][rows][order],
            "component": component[order],
            "gap": r["gaps"][rows, positions][order],
            "type": np.concatenate([p[3] for p in parts])[order].astype(np.int64),
            "log_p": np.concatenate([r[p[4]][p[0], p[1]] for p in parts])[order],
            "log_q": np.concatenate([r[p[5]][p[0], p[1]] for p in parts])[order],
            "accepted": np.concatenate([p[6] for p in parts])[order],
        }

    def _events(self, r: dict[str, Any]) -> dict[str, Any]:
        row = np.repeat(np.arange(len(r["kept"])), r["kept"])
        position = np.arange(len(row)) - np.repeat(np.cumsum(r["kept"]) - r["kept"], r["kept"])
        last = position == r["n_accepted"][row]
        accepted = np.int8(ROLE_ACCEPTED)
        return {
            "gap_role": np.where(last, r["gap_role"][row], accepted).astype(np.int8),
            "type_role": np.where(last, r["type_role"][row], accepted).astype(np.int8),
            "event_round": r["index"][row],
            "event_position": position,
            "event_k": r["k"][row],
        }

    def _per_round(self, r: dict[str, Any]) -> dict[str, Any]:
        return {
            "round_sequence": r["ids"],
            "round_index": r["index"],
            "round_drafted": r["k"],
            "round_verified": r["n_verified"],
            "round_accepted": r["within"],
            "round_committed": r["kept"],
            "round_discarded": r["offered"] - r["kept"],
        }

    def _crossings(self, r: dict[str, Any], events: EventBatch) -> dict[str, Any]:
        if events.horizon is None:
            return {"crossing_position": None, "crossing_k": None}
        crossed = r["offered"] > r["kept"]
        position, k = np.zeros(len(events), dtype=np.int64), np.zeros(len(events), dtype=np.int64)
        position[r["ids"][crossed]] = r["kept"][crossed]
        k[r["ids"][crossed]] = r["k"][crossed]
        return {"crossing_position": position, "crossing_k": k}
