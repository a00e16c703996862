"""Rounds that miss a deadline keep their proposals unverified: a server's promise of latency, paid for by the law."""

from __future__ import annotations

from dataclasses import dataclass, field

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, Work
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import Verification
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray, SampleRequest
from tppsd_bench.streams import UniformStreams


@dataclass
class TimedWork(Work):
    """Work with a clock of its own for each sequence: which rounds are late does not depend on the machine."""

    clock: UniformStreams = field(kw_only=True)


@dataclass
class TimedDraft(Draft):
    late: BoolArray = field(kw_only=True)
    """(n,) the target's answer comes after the deadline."""


@dataclass(frozen=True)
class TimeoutToDraft(Speculative):
    """A share ``late`` of the rounds takes all its proposals as accepted."""

    late: float = 0.0

    def start(self, request: SampleRequest) -> Work:
        clock = UniformStreams(request.key.replace(purpose="deadline"), request.n_sequences, request.first_sequence, block=64)
        return TimedWork(**vars(super().start(request)), clock=clock)

    def propose(self, work: Work, k: IntArray, u: FloatArray) -> Draft:
        draft = super().propose(work, k, u)
        assert isinstance(work, TimedWork)
        return TimedDraft(**vars(draft), late=work.clock.take(work.ids, 1)[:, 0] < self.late)

    def verify(self, draft: Draft, p: Law, position_rows: IntArray, u: FloatArray) -> Verification:
        verified = super().verify(draft, p, position_rows, u)
        assert isinstance(draft, TimedDraft)
        verified.gap_accepted[draft.late] = verified.type_accepted[draft.late] = True
        return verified


MUTANT = Mutant(
    name="timeout_to_draft",
    broken="Rounds past their deadline keep all their proposals, verified or not.",
    precedent="advice in blog posts on serving point processes",
    change=lambda sampler, share: remade(TimeoutToDraft, sampler, late=share),
    killers=("acceptance_identity.gap", "acceptance_identity.type", "pit_time", "pit_type", "draft_direction"),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
    doses=(0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0),
    dose=0.5,
)
