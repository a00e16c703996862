"""Suites of the proof: what is wrong in their tables is named, what they cover is listed before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impls.mutants import controls, names
from tppsd_bench.errors import InputError
from tppsd_bench.runner import plan, power_plan
from tppsd_bench.suite import Suite, check_suite, load_suite
from tppsd_bench.suite_power import Null, Power

TARGET_ONLY = {"samplers": ["target_only"]}


def proof(**tables: Any) -> Suite:
    return check_suite({"name": "proof", **tables}, "proof.toml")


@pytest.mark.parametrize(
    ("tables", "parts"),
    [
        ({}, ["'pairs' is missing", "[power]"]),
        ({"power": {"mutant": "all"}}, ["unknown key 'power.mutant'", "did you mean 'mutants'?"]),
        ({"power": {"seeds": 0}}, ["'power.seeds' is 0"]),
        ({"power": {"mutants": "most"}}, ["'power.mutants", "'most'"]),
        ({"power": {"required": 1.5}}, ["'power.required' is 1.5"]),
        ({"null": {}}, ["'null.samplers' is missing"]),
        ({"null": {"samplers": ["target_only"], "levels": [2.0]}}, ["null.levels", "2.0"]),
        ({"dose": {"doses": {"lenient": []}}}, ["dose.doses.lenient"]),
        ({"transformer": {"mutants": ["lenient"]}}, ["'transformer.pairs' is missing"]),
    ],
)
def test_what_is_wrong_in_a_table_is_named(tables: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        proof(**tables)
    assert [p for p in parts if p not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("tables", "parts"),
    [
        ({"power": {"mutants": ["leniant"]}}, ["[power]", "'leniant'", "Did you mean 'lenient'?"]),
        ({"power": {"mutants": ["k_one"]}}, ["[power]", "'k_one' is a control"]),
        ({"power": {"seeds_of": {"leniant": 3}}}, ["Did you mean 'lenient'?"]),
        ({"power": {"controls": ["lenient"]}}, ["'lenient' is a fault"]),
        ({"power": {"mutants": ["lenient", "lenient"]}}, ["listed twice"]),
        ({"power": {"zoo": "no_such_zoo"}}, ["power.zoo = 'no_such_zoo'"]),
        ({"dose": {"mutants": ["seed_constant"]}}, ["[dose]", "'seed_constant' has no doses"]),
        ({"null": {"samplers": ["target-only"]}}, ["[null]", "did you mean 'target_only'?"]),
        ({"null": {"samplers": ["target_only.k3"]}}, ["target-only sampling has no 'k3'"]),
        ({"null": {"samplers": ["target_only.horizon"]}}, ["give null.horizon"]),
        ({"null": {"samplers": ["k_one", "k_one"]}}, ["'k_one' twice"]),
        ({"null": {"samplers": ["target_only"], "pair": "toy-markd"}}, ["toy-marked"]),
    ],
)
def test_what_the_zoo_does_not_have_is_named(tables: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        plan.make_plan(proof(**tables))
    assert [p for p in parts if p not in str(caught.value)] == []


def test_one_cell_a_fault_and_a_control_on_its_witness() -> None:
    from reference_impls.mutants import mutant

    made = plan.make_plan(proof(power={}, null=TARGET_ONLY))
    assert [c.id for c in made.cells] == [*(f"power.{n}" for n in names() + controls()), "null.target_only"]
    for job in made.jobs[:-1]:
        witness = mutant(job.cells[0].id.partition(".")[2]).witness
        assert (job.pair, job.cells[0].draft, job.length, job.horizon) == (
            witness.pair,
            witness.draft,
            witness.length,
            witness.horizon,
        )
    assert all(job.cost > 0 for job in made.jobs)


def test_the_other_tables() -> None:
    suite = proof(
        dose={"mutants": ["lenient"], "doses": {"lenient": [1.1, 2.0]}},
        transformer={"mutants": ["lenient", "type_unverified"], "pairs": ["attnhp-selfcorrecting"]},
        null={"samplers": ["target_only", "speculative.shipped.k3.joint", "speculative.horizon", "no_bonus"], "horizon": 9.0},
    )
    made = plan.make_plan(suite)
    assert [c.id for c in made.cells] == [
        "transformer.lenient.attnhp-selfcorrecting", "transformer.type_unverified.attnhp-selfcorrecting", "dose.lenient",
        "null.target_only", "null.speculative.shipped.k3.joint", "null.speculative.horizon", "null.no_bonus",
    ]  # fmt: skip
    drafts = {c.id.partition(".")[2]: (c.draft, c.k) for c in made.cells if c.kind == "null"}
    assert drafts["speculative.shipped.k3.joint"] == ("shipped", 3)
    assert drafts["speculative.horizon"] == ("stress", 5)
    assert drafts["target_only"] == ("", None)
    assert {j.horizon for j in made.jobs if j.cells[0].id == "null.speculative.horizon"} == {9.0}


def test_null_sampler_names() -> None:
    import reference_impls.mutants as zoo

    found = power_plan.null_sampler("speculative.shipped.k3.joint.horizon", zoo)
    assert (found.draft, found.k, found.rule, found.horizon) == ("shipped", 3, "leviathan_joint", True)
    assert power_plan.null_sampler("k_one", zoo).control == "k_one"


def test_suites_without_these_tables_are_as_they_were() -> None:
    made = plan.make_plan(load_suite("smoke"))
    assert {j.kind for j in made.jobs} == {"law", "speed"}
    assert all(j.table is None for j in made.jobs)


def test_pairs_events_time_and_seed() -> None:
    suite = proof(
        power={"seeds": 10, "control_seeds": 4}, null={**TARGET_ONLY, "runs": 400}, nominal={"power": 100.0, "report": 10.0}
    )
    few = plan.make_plan(proof(power={"seeds": 10, "control_seeds": 4, "seeds_of": {"lenient": 3}}))
    seeds = {j.cells[0].id: j.table.seeds for j in few.jobs if isinstance(j.table, Power)}
    assert (seeds["power.lenient"], seeds["power.jacobian"], seeds["power.k_one"]) == (3, 10, 4)
    assert {j.pair for j in plan.make_plan(suite, pairs=["toy-gap-types"]).jobs} == {"toy-gap-types"}
    more = plan.scale_events(suite, 1234)
    assert more.power is not None
    assert more.null is not None
    assert (more.power.n_events, more.null.n_events) == (1234, 2000)
    half = plan.scale_to_budget(suite, 60.0)
    assert half.power is not None
    assert half.null is not None
    assert (half.power.seeds, half.power.control_seeds, half.null.runs) == (5, 2, 200)
    with pytest.raises(InputError, match="give at least 20 s"):
        plan.scale_to_budget(suite, 12.0)
    assert plan.make_plan(suite, seed=3).digest != plan.make_plan(suite).digest
    assert plan.make_plan(suite).digest == plan.make_plan(suite).digest
    said = plan.detectable(plan.make_plan(suite))
    assert f"{len(names())} faults, each under 10 seeds of 20,000 events, and {len(controls())} exact controls" in said
    assert "at least 0.741" in said  # 0.05 ** (1 / 10)
    assert "400 runs of 1 exact samplers" in said


def test_the_shipped_suites_are_listed_cell_by_cell() -> None:
    from tppsd_bench.runner import present

    shown = present.shown("power", (), False)
    for part in ("power.type_unverified", "power.k_one", "null.target_only", "dose.lenient", "8 seeds of 19,200 events"):
        assert part in shown
    runs = sum(j.table.runs for j in plan.make_plan(load_suite("power")).jobs if isinstance(j.table, Null))
    assert runs >= 1000
    full = load_suite("power-full").power
    assert full is not None
    assert (full.seeds, full.n_events) == (72, 20_000)
