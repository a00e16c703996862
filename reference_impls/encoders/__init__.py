"""Encoders: history -> context, each with an incremental cache. ``ENCODERS`` is the registry recipes name."""

from __future__ import annotations

from reference_impls.encoders.attnhp import AttNHP
from reference_impls.encoders.sahp import SAHP
from reference_impls.encoders.thp import THP

ENCODERS = {"thp": THP, "sahp": SAHP, "attnhp": AttNHP}
