"""How much memory a batch in flight takes, and how many rows of it fit a limit.

    rows x (capacity x event + row + positions x position) + scores(positions, capacity)  <=  limit

``event``: what a cache keeps of one event, read off empty caches, so that no kind of model has to be known here. ``row``: a sequence's
own random numbers and the tries of a residual draw. ``position``: activations and laws of one position of a pass, which live as long as
the pass. ``scores``: attention scores; on a CPU those of one row at a time. What is finished, events and trace, is the answer and not
counted: whoever wants that bounded asks in slices (``tppsd_bench.streaming``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reference_impls.base import Model
from reference_impls.samplers.residual import AT_ONCE
from tppsd_bench.errors import InputError

_HISTORY = 32
"""Bytes of an event in the histories: gap and type, twice while they grow."""
_EVENT = 16
"""Bytes of an event alone: a network whose cache keeps no more than that encodes whole histories."""
_STREAM = 10_000
"""Bytes of a sequence's random stream: a block of uniforms and the generator."""
_LAW_COPIES = 8
"""A law's numbers are gathered, joined and evaluated: as many arrays of its size live at once at most."""
_STATE_COPIES = 16
"""Arrays of an encoder's width that live at once in a pass."""
_WHOLE_PASSES = 2.5
"""Passes over whole histories, each a little longer than the last, leave that much more behind in the allocator."""
_FIXED = 4_000_000
"""Scratch that does not depend on the request: blocks of attention scores, quadrature of a few rows."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that sampling from these models takes; see the module."""

    event: float
    row: float
    position: float
    heads: int = 0
    """Of the largest attention, 0 without one."""
    on_cpu: bool = True
    whole: bool = False
    """Some model encodes the whole history anew in every pass, all rows' scores at once."""

    def of_row(self, capacity: int, positions: int) -> float:
        """Bytes of one more sequence with room for ``capacity`` events in a pass of ``positions``."""
        apart = self.on_cpu and not self.whole
        scores = 0.0 if apart else 3 * self._scores(capacity, positions)
        seen = capacity if self.whole else positions
        return capacity * self.event + self.row + seen * self.position + scores

    def fixed(self, capacity: int, positions: int) -> float:
        """Bytes that do not depend on the number of sequences."""
        return _FIXED + self._scores(capacity, positions)

    def _scores(self, capacity: int, positions: int) -> float:
        return 4.0 * self.heads * (capacity if self.whole else positions) * capacity


def footprint(models: Sequence[Model], *, recompute: bool = False) -> Footprint:
    """Of a sampler over ``models`` (target first, then perhaps a draft); ``recompute``: without caches."""
    event, row, position, heads, on_cpu, whole = float(_HISTORY), float(_STREAM), 0.0, 0, True, recompute
    for model in models:
        kept = (_row_bytes(model, 64) - _row_bytes(model, 32)) / 32
        law = held(model.initial(3)) - held(model.initial(2)) + 8 * model.n_types
        width, more, n_heads, host = _encoder(model)
        anew = recompute or (width > 0 and kept <= _EVENT)
        if not recompute:
            event += kept
            row += max(0.0, 2 * _row_bytes(model, 32) - _row_bytes(model, 64))
        position += (_LAW_COPIES * law + 4 * (_STATE_COPIES * width + 2 * more)) * (_WHOLE_PASSES if anew else 1.0)
        row += 3 * AT_ONCE * law
        heads, on_cpu, whole = max(heads, n_heads), on_cpu and host, whole or anew
    return Footprint(event, row, position, heads, on_cpu, whole)


def _row_bytes(model: Model, capacity: int) -> int:
    """Bytes of one row of an empty cache. Two rows at least: single sequences may have a cache of their own kind, no larger."""
    return held(model.start(3, capacity)) - held(model.start(2, capacity))


def _encoder(model: Any) -> tuple[int, int, int, bool]:
    """(width, widest layer, heads, on a CPU) of a network, however it is wrapped; zeros of a model in closed form."""
    while not hasattr(model, "encoder"):
        inner = next((getattr(model, name) for name in ("base", "inner", "model") if hasattr(model, name)), None)
        if inner is None:
            return 0, 0, 0, True
        model = inner
    encoder = model.encoder
    widest = max((int(w.shape[0]) for w in encoder.parameters() if w.ndim == 2), default=0)
    return int(encoder.d), widest, int(encoder.n_heads), model.device.type == "cpu"


def held(thing: Any) -> int:
    """Bytes of the arrays that an object holds, itself or in its fields; networks that it refers to are not its own."""
    size = getattr(thing, "nbytes", None)
    if size is not None:
        return int(size)
    if hasattr(thing, "named_parameters") or callable(thing):
        return 0
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, name, None) for name in names)]
    return sum(held(part) for part in parts)


@dataclass(frozen=True)
class Room:
    """A limit on the memory of the work in flight, beyond what the models themselves take; None: no limit."""

    limit: int | None
    models: tuple[Model, ...]
    recompute: bool = False

    def rows(self, capacity: int, positions: int) -> int | None:
        """How many sequences fit, with room for ``capacity`` events each, in a pass of ``positions``; None without a limit.

        InputError where not even one does.
        """
        if self.limit is None:
            return None
        need = footprint(self.models, recompute=self.recompute)
        one, fixed = need.of_row(capacity, positions), need.fixed(capacity, positions)
        fit = int((self.limit - fixed) // one)
        if fit < 1:
            raise InputError(
                f"A memory limit of {in_words(self.limit)} is too small for one sequence: with room for {capacity:,} events and a pass "
                f"over {positions:,} positions it needs about {in_words(one + fixed)}; raise the limit, or ask for shorter sequences."
            )
        return fit

    def may_grow(self, n: int, capacity: int, positions: int) -> bool:
        """Whether ``n`` sequences may grow to ``capacity`` from half of it; both are held while one is copied to the other."""
        grown = capacity + capacity // 2
        need = footprint(self.models)
        return self.limit is None or n * need.of_row(grown, positions) + need.fixed(grown, positions) <= self.limit


def in_words(size: float) -> str:
    """Bytes as people say them: 1.5 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"
