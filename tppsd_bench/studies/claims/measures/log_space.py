"""Do acceptance ratios blow up without logarithms? Densities exponentiated in single precision, against log space in double."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, share


class Settings(StudyTable):
    n_sequences: Annotated[int, Field(ge=8)] = 256
    length: Annotated[int, Field(ge=8)] = 32
    tolerance: Annotated[float, Field(gt=0)] = 0.01
    """Relative error from which on a ratio counts as wrong."""
    draft: str = "shipped"


def measure(context: Context, settings: Settings) -> Measured:
    """Share of the draft's proposals whose p / q is not finite, or wrong by more than the tolerance, after the target's histories.

    Three ways to form it: densities as float32 and divided; as float64 and divided; log densities subtracted in float64 (right by
    definition here). The type's softmax is formed likewise, its logits exponentiated without the maximum taken out.
    """
    pair = context.pair
    request = SampleRequest(
        settings.n_sequences, Stop(n_events=settings.length), context.key, device=context.device, want_trace=False
    )
    histories = pair.sampler("target_only").sample(request).events
    p, q = (model.conditionals(histories) for model in (pair.target, pair.drafts[settings.draft]))
    gap = q.sample_gap(context.key.replace(purpose="proposals").generator().random((histories.n_events, 2)))
    log_p, log_q = p.log_prob(gap), q.log_prob(gap)
    right = np.exp(log_p - log_q)
    out = []
    for name, kind in (("single_precision", np.float32), ("double_precision", np.float64)):
        bad = _wrong(log_p, log_q, right, kind, settings.tolerance)
        label = f"proposals with a wrong ratio, densities divided as {kind.__name__}"
        out.append(Quantity(name, label, *share(int(bad.sum()), len(bad)), context.name, len(bad), "percent"))
    return Measured(tuple(out))


def _wrong(log_p: Any, log_q: Any, right: Any, kind: Any, tolerance: float) -> Any:
    with np.errstate(all="ignore"):
        ratio = (np.exp(log_p).astype(kind) / np.exp(log_q).astype(kind)).astype(np.float64)
        return ~np.isfinite(ratio) | (np.abs(ratio - right) > tolerance * right)
