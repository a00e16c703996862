"""The anytime-valid monitor: a betting e-process over PITs, types, memory, draft direction and the declared rule.

A family of bets is one class in a file of its kind; ``process.FAMILIES`` lists them. ``base`` states why it is valid.
"""

from tppsd_bench.stats.eprocess.base import Design, Family
from tppsd_bench.stats.eprocess.chunk import UnsettledBet
from tppsd_bench.stats.eprocess.process import FAMILIES, ROUNDING, EProcess, Wealth

__all__ = ["FAMILIES", "ROUNDING", "Design", "EProcess", "Family", "UnsettledBet", "Wealth"]
