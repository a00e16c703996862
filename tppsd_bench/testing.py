"""For a user's own test suite: one assertion with a stated error rate."""

from __future__ import annotations

from tppsd_bench import budget
from tppsd_bench.certificate import DEFAULT_EVENTS, Certificate, certify
from tppsd_bench.errors import InvalidEvidence
from tppsd_bench.protocols import ConditionalTarget, SamplerUnderTest, Stop, Target
from tppsd_bench.results import Outcome


class Inconclusive(AssertionError):
    """Neither a fault nor enough evidence against one: the test is too small. The message says how many events it needs."""


def assert_exact(
    sampler: SamplerUnderTest,
    target: Target,
    alpha: float = budget.RUN_LEVEL,
    n_events: int = DEFAULT_EVENTS,
    *,
    draft: ConditionalTarget | None = None,
    reference: SamplerUnderTest | None = None,
    seed: int = 0,
    stop: Stop | None = None,
) -> Certificate:
    """Raise AssertionError unless ``sampler`` draws from the law of ``target``.

    An exact sampler fails with probability at most ``alpha``, whatever ``seed`` is: a rejection is confirmed on fresh seeds
    inside (Gandy and Scott 2020), so a failing test needs no rerun and must not be rerun until it passes. In at most about 2 %
    of seeds an exact sampler is Inconclusive at the default size; fix ``seed`` in a test suite.

    Raises AssertionError with the verdict's sentence, Inconclusive where more events are needed, InvalidEvidence where the
    target or the sampler cannot support a verdict. Returns the certificate otherwise.
    """
    certificate = certify(
        sampler, target, n_events=n_events, draft=draft, reference=reference, seed=seed, stop=stop, level=alpha
    )
    if certificate.outcome is Outcome.PASS:
        return certificate
    if certificate.outcome is Outcome.FAIL:
        raise AssertionError(certificate.sentence)
    if certificate.outcome is Outcome.INVALID:
        raise InvalidEvidence(certificate.sentence)
    raise Inconclusive(certificate.sentence)
