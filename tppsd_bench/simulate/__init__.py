"""Known point processes: exact simulation, likelihood and scores. One registry; a member is one file."""

from __future__ import annotations

from typing import Any

from tppsd_bench.errors import InputError
from tppsd_bench.simulate.base import EventLaw, Process
from tppsd_bench.simulate.baseline import renewal_baseline
from tppsd_bench.simulate.echo import EchoRenewal
from tppsd_bench.simulate.hawkes import ExponentialHawkes
from tppsd_bench.simulate.poisson import InhomogeneousPoisson
from tppsd_bench.simulate.renewal import LogNormalRenewal
from tppsd_bench.simulate.self_correcting import SelfCorrecting

PROCESSES: dict[str, type[Process]] = {
    process.kind: process
    for process in (InhomogeneousPoisson, ExponentialHawkes, SelfCorrecting, LogNormalRenewal, EchoRenewal)
}

__all__ = [
    "PROCESSES",
    "EchoRenewal",
    "EventLaw",
    "ExponentialHawkes",
    "InhomogeneousPoisson",
    "LogNormalRenewal",
    "Process",
    "SelfCorrecting",
    "make",
    "renewal_baseline",
]


def make(kind: str, **params: Any) -> Process:
    """The process named ``kind`` with these parameters (plain numbers and lists will do); InputError if there is none."""
    if kind not in PROCESSES:
        raise InputError(f"There is no process named {kind!r}; the known ones are {', '.join(PROCESSES)}.")
    try:
        return PROCESSES[kind](**params)
    except TypeError as error:
        raise InputError(f"The {kind} process cannot be made from the parameters {sorted(params)}: {error}.") from error
