"""Encoders: history -> context, each with an incremental cache. ``ENCODERS`` is the registry recipes name."""

from __future__ import annotations

from reference_impls.encoders.attnhp import AttNHP
from reference_impls.encoders.convolution import Convolution
from reference_impls.encoders.history_free import HistoryFree
from reference_impls.encoders.recurrent import GRU, LSTM
from reference_impls.encoders.sahp import SAHP
from reference_impls.encoders.thp import THP

ENCODERS = {
    "thp": THP,
    "sahp": SAHP,
    "attnhp": AttNHP,
    "lstm": LSTM,
    "gru": GRU,
    "convolution": Convolution,
    "renewal": HistoryFree,
}
