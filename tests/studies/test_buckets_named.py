"""Discretised pairs by name: what a name means, what is refused, and that the plan and its overrides know them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from reference_impls.pairs import card, load_pair
from reference_impls.tokens.named import parse
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.streams import StreamKey
from tppsd_bench.suite import check_suite, load_suite

NAME = "tokens:log_width:20:empirical:toy-marked"


def test_a_name_says_buckets_law_inside_and_pair() -> None:
    assert parse(NAME) == ("log_width", 20, "empirical", "toy-marked")
    assert parse("tokens:quantile:100:release:thp:hawkes:/some/folder") == (
        "quantile", 100, "uniform", "release:thp:hawkes:/some/folder",
    )  # fmt: skip
    pair = load_pair(NAME)
    assert (pair.target.buckets.strategy, len(pair.target.buckets), pair.target.buckets.within) == (
        "log_width",
        20,
        "empirical",
    )
    assert pair.name == "tokens-log_width-20-empirical-toy-marked" == card(NAME)["name"]
    assert "20 log_width buckets" in card(NAME)["title"]
    assert card(NAME)["train_median_events"] == card("toy-marked")["train_median_events"]


def test_a_name_always_means_the_same_tokens_and_samples() -> None:
    first, second = load_pair(NAME), load_pair(NAME)
    assert first.target.buckets.same_as(second.target.buckets)
    assert not first.target.buckets.same_as(load_pair("tokens:log_width:20:toy-marked").target.buckets)
    run = first.sampler("speculative", draft="stress", k=3).sample(SampleRequest(4, Stop(n_events=8), StreamKey(seed=1)))
    assert run.events.n_events == 32


def test_drafts_are_wrapped_when_asked_for() -> None:
    pair = load_pair("tokens:quantile:10:toy-marked")
    assert list(pair.drafts) == ["shipped", "stress", "close"]
    assert not pair.drafts._at_hand  # type: ignore[attr-defined]
    assert pair.drafts["close"] is pair.drafts["close"]
    assert pair.drafts["close"].buckets is pair.target.buckets


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tokens:quantile:toy-marked", "expected tokens:STRATEGY:N:PAIR"),
        ("tokens:even:10:toy-marked", "there is no strategy 'even'; expected one of quantile"),
        ("tokens:quantile:one:toy-marked", "'one' is no number of buckets"),
        ("tokens:quantile:1:toy-marked", "'1' is no number of buckets"),
        ("tokens:quantile:10:toy-tokens", "is a pair over tokens already"),
        ("tokens:quantile:10:toy-markd", "There is no pair 'toy-markd'.*Did you mean 'toy-marked'"),
    ],
)
def test_what_is_no_discretised_pair_is_refused_with_a_sentence(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_pair(name)


def test_fifty_types() -> None:
    pair = load_pair("toy-many-types")
    assert pair.target.n_types == card("toy-many-types")["n_types"] == 50
    probs = np.exp(pair.target.initial(1).type_log_probs(np.ones(1)))
    assert probs.shape == (1, 50)
    assert probs.min() > 1e-3


def suite_of(**more: object) -> dict[str, object]:
    return {"name": "mixed", "pairs": [NAME], "law": {"n_events": 128, "length": 32}, "speed": {"enabled": False},
            "fit": {"enabled": False}, "study": {"buckets": {"pairs": ["toy-marked"]}}, **more}  # fmt: skip


def test_overrides_reach_pairs_that_a_scheme_names() -> None:
    suite = check_suite(suite_of(pair={NAME: {"law": {"rule": "leviathan_joint"}}}), "here")
    plan = make_plan(suite)
    (law,) = [job for job in plan.jobs if job.kind == "law"]
    assert law.sections.law.rule == "leviathan_joint"
    assert law.pair == "tokens-log_width-20-empirical-toy-marked"


def test_with_a_study_pairs_select_so_that_a_run_can_be_resumed() -> None:
    """The pairs of a finished plan, handed in again, give the same plan: a study's pair gets no law cell by it."""
    plan = make_plan(check_suite(suite_of(), "here"))
    sources = list(dict.fromkeys(job.source for job in plan.jobs))
    assert sources == [NAME, "toy-marked"]
    assert make_plan(plan.suite, pairs=sources).digest == plan.digest
    only = make_plan(plan.suite, pairs=["toy-marked"])
    assert {job.kind for job in only.jobs} == {"buckets"}


@pytest.mark.parametrize("name", ["buckets", "grid"])
@pytest.mark.parametrize("profile", ["", "full"])
def test_suites_load_in_every_profile(name: str, profile: str) -> None:
    plan = make_plan(load_suite(name, profile=profile))
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    assert all(cell.id.startswith(f"{cell.kind}.") for cell in plan.cells)


def test_law_cells_cover_strategies_numbers_and_types_under_both_rules() -> None:
    plan = make_plan(load_suite("buckets"))
    law = [job for job in plan.jobs if job.kind == "law" and job.source.startswith("tokens:")]
    known = {"toy-univariate": 1, "toy-marked": 3, "toy-many-types": 50}
    covered = {(p.strategy, p.n_buckets, known[p.pair]) for job in law if (p := parse(job.source)).pair in known}
    assert covered == {(s, n, m) for s in ("quantile", "equal_width", "log_width") for n in (10, 100, 500) for m in (1, 3, 50)}
    assert {job.sections.law.rule for job in law} == {"leviathan_two_step", "leviathan_joint"}
    assert {parse(job.source).within for job in law} == {"uniform", "log_uniform", "empirical"}


def test_cards_need_no_heavy_library() -> None:
    code = (
        f"import sys; from reference_impls.pairs import card; card({NAME!r}); "
        "print(*[m for m in ('torch', 'scipy', 'pandas', 'matplotlib', 'statsmodels') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
