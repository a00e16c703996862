"""Parts of the examination that only a staged arm can show: proofs, the reference's own faults, and whose fault a rejection is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference_impls.mutants import Witness, mutant
from reference_impls.pairs import load_pair
from tppsd_bench import budget
from tppsd_bench.protocols import Stop
from tppsd_bench.results import Axis, Evidence, Outcome
from tppsd_bench.runner import examine as module
from tppsd_bench.runner.design import REFERENCE, Arm, Design, Subject
from tppsd_bench.runner.examine import examine
from tppsd_bench.runner.plan import Levels
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.streams import StreamKey

LEVELS = Levels(budget.LAW_ANALYTIC_LEVEL, budget.PERMUTATION_LEVEL, budget.MECHANISM_LEVEL)
PAIR = load_pair("toy-marked")


def rounds(faults: dict[str, str], **design: Any) -> Rounds:
    here = Witness("toy-marked", k=4)
    subjects = {
        name: Subject(mutant(fault).sampler(PAIR, witness=here) if fault else here.exact(PAIR), PAIR.drafts["stress"])
        for name, fault in faults.items()
    }
    made = Design(Stop(n_events=50), 44, StreamKey(seed=4, cell="examine"), pilot_sequences=40, n_permutations=999, **design)
    return Rounds(PAIR.target, subjects, PAIR.sampler("target_only", batch_size=64), made)


def staged(made: Rounds, label: str, j: int, *added: Evidence) -> None:
    arm = made.arm(label, j)
    made._arms[label, j] = Arm(arm.run, arm.scores, (*arm.evidence, *added), arm.not_possible, arm.seconds)


IMPOSSIBLE = Evidence("tail.impossible", Axis.LAW, passed=False, detail="an event of probability 0")


def test_a_proof_of_the_first_round_is_not_taken_back_by_the_second() -> None:
    made = rounds({"a": ""})
    plain = made.arm("a", 1)
    made._arms["a", 1] = Arm(
        plain.run, plain.scores, (*(replace(e, p_value=1e-6) if e.name == "tail.atoms" else e for e in plain.evidence), IMPOSSIBLE),
        plain.not_possible, plain.seconds,
    )  # fmt: skip
    found = examine(made, LEVELS)["a"]
    assert found.arm is made.arm("a", 2)
    law = next(v for v in found.verdicts if v.axis is Axis.LAW)
    assert law.outcome is Outcome.FAIL
    assert "probability 0" in law.sentence


def test_a_reference_that_emits_the_impossible_judges_nobody() -> None:
    made = rounds({"a": ""})
    staged(made, REFERENCE, 1, IMPOSSIBLE)
    found = examine(made, LEVELS)["a"]
    assert {v.axis: v.outcome for v in found.verdicts}[Axis.LAW] is Outcome.INVALID


def test_an_exact_cell_is_not_dragged_along_by_a_broken_one() -> None:
    """The permutation family alone (nothing settled beforehand): the broken cell fails by it, the exact one passes."""
    made = rounds({"exact": "", "broken": "type_unverified"})
    found = module._permutation(made, replace(LEVELS, permutation=1e-3), ["exact", "broken"], [])
    exact, broken = found["exact"].decision, found["broken"].decision
    assert exact is not None
    assert broken is not None
    assert (exact.outcome, broken.outcome) == (Outcome.PASS, Outcome.FAIL)
    own = next(e for e in found["exact"].evidence if e.name == "blackbox.maxT")
    assert own.p_value == exact.q_value > 0.01
    settled = module._permutation(made, LEVELS, ["exact", "broken"], ["broken"])
    assert settled["broken"].decision is None
    assert settled["broken"].evidence


def test_a_leak_between_rows_of_a_batch_shows_when_sequences_change_rows() -> None:
    made = rounds({"exact": "", "leaks": "batch_leak"})
    told = {
        label: next(e.passed for e in made.arm(label, 1).evidence if e.name == "reproducible.batch_size")
        for label in ("exact", "leaks")
    }
    assert told == {"exact": True, "leaks": False}
