"""A target's scores as float64 arrays, or one sentence why there are none: users bring targets, and targets break."""

from __future__ import annotations

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores, Target

_NEEDED = ("log_density", "cdf", "survival", "type_probs")


def scored(target: Target, batch: EventBatch) -> Scores:
    """``target.score(batch)`` with every field a float64 array; raises InputError where it breaks or gives something else."""
    try:
        found = target.score(batch)
    except (InputError, TimeoutError, MemoryError):
        raise
    except Exception as problem:
        raise InputError(
            f"The target's score() raised {type(problem).__name__}: {problem}, on {len(batch)} sequences of up to "
            f"{int(batch.lengths.max(initial=0))} events; it must score any batch of positive gaps."
        ) from problem
    missing = [name for name in _NEEDED if not hasattr(found, name)]
    if missing:
        raise InputError(
            f"The target's score() returned a {type(found).__name__} without {', '.join(missing)}; expected tppsd_bench.Scores."
        )
    crossing = getattr(found, "crossing_cdf", None)
    try:
        log_density, cdf, survival, types = (np.asarray(getattr(found, name), dtype=np.float64) for name in _NEEDED)
        after = None if crossing is None else np.asarray(crossing, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise InputError(f"The target's scores are no arrays of numbers ({problem}); expected float64 arrays.") from problem
    return Scores(log_density, cdf, survival, types, after)
