"""Black-box battery (level: sequences only): two-sample tests by permuting whole sequences."""

from __future__ import annotations

from tppsd_bench.stats.blackbox.battery import blackbox_battery
from tppsd_bench.stats.blackbox.effects import min_sequences
from tppsd_bench.stats.blackbox.maxt import MaxT, PermutationGroup, max_t
from tppsd_bench.stats.blackbox.range_screen import RangeScreenCounts, range_screen
from tppsd_bench.stats.blackbox.statistics import REGISTRY
from tppsd_bench.stats.blackbox.summaries import Summaries, summarise

__all__ = [
    "REGISTRY",
    "MaxT",
    "PermutationGroup",
    "RangeScreenCounts",
    "Summaries",
    "blackbox_battery",
    "max_t",
    "min_sequences",
    "range_screen",
    "summarise",
]
