"""The peak of a stretch of work: seen, and forgotten where the system can."""

from __future__ import annotations

import numpy as np
import pytest

from tppsd_bench.measure.memory import forget_peak, peak_bytes


def test_a_large_array_is_seen_and_forgotten() -> None:
    if not forget_peak():
        pytest.skip("this system keeps the peak of the whole process")
    before = peak_bytes()
    large = np.ones(20_000_000)
    assert peak_bytes() - before > 0.9 * large.nbytes
    del large
    forget_peak()
    assert peak_bytes() - before < 40_000_000
