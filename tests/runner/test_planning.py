"""The command ``plan``: consistent with the statistics it speaks for, both ways round, in text and JSON, and fast."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given
from hypothesis import strategies as st

from tppsd_bench import budget
from tppsd_bench.cli import main
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict
from tppsd_bench.runner import plan
from tppsd_bench.stats.base import REGISTRY
from tppsd_bench.stats.missed import blind_spots, missed
from tppsd_bench.stats.neyman import legendre
from tppsd_bench.stats.planning import Look, directions, need_ks, need_theta, need_tv, smallest, standard_look
from tppsd_bench.store import RunFolder, write_cell

LOOK = standard_look(3, 5, white=True)
KINDS = {d.key: d for d in directions(3, draft_tv=0.3)}


@pytest.fixture
def ask() -> Callable[..., Result]:
    return lambda *words: CliRunner().invoke(main, ["plan", *words])


# -- identities --------------------------------------------------------------------------------------------------------------
def integral(h: np.ndarray, u: np.ndarray) -> tuple[float, float, float]:
    """(TV, KS, |theta_1|) of a density 1 + h on a fine grid of cell middles."""
    width = 1 / len(u)
    ks = float(np.abs(np.cumsum(h)).max() * width)
    return float(0.5 * np.abs(h).sum() * width), ks, float(abs(legendre(u)[0] @ h) * width)


U = (np.arange(20_000) + 0.5) / 20_000


def test_a_linear_tilt_has_theta_4_tv_over_root_3() -> None:
    tv, ks, theta = integral(0.4 * (2 * U - 1), U)
    assert tv == pytest.approx(0.1, rel=1e-6)
    assert ks == pytest.approx(tv, rel=1e-6)
    assert theta == pytest.approx(KINDS["tilt"].slope * tv, rel=1e-6)


@given(st.lists(st.floats(0, 10), min_size=2, max_size=30), st.floats(0.01, 1))
def test_a_monotone_departure_has_theta_at_least_root_3_tv(steps: list[float], size: float) -> None:
    h = np.repeat(np.cumsum(steps), -(-len(U) // len(steps)))[: len(U)]
    h -= h.mean()
    assume(h.min() < -1e-6)
    h *= size / float(-h.min())  # the density stays nonnegative
    tv, ks, theta = integral(h, U)
    assert ks == pytest.approx(tv, abs=1e-9)
    assert theta >= KINDS["monotone"].slope * tv - 1e-6


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.99))
def test_a_departure_of_one_crossing_has_theta_at_least_root_3_tv_squared(at: float, share: float) -> None:
    """The sharpest: a stretch below ``at`` emptied, its mass put into a sliver just above; here the bound is nearly met."""
    tv = share * min(at, 1 - at)
    taken, put = (at - tv < U) & (at >= U), (at < U) & (at + 1e-3 >= U)
    h = np.where(taken, -1.0, 0.0) + np.where(put, taken.sum() / max(int(put.sum()), 1), 0.0)
    tv, ks, theta = integral(h, U)
    assert ks == pytest.approx(tv, abs=1e-9)
    assert math.sqrt(3) * tv**2 <= theta + 1e-9
    assert theta <= math.sqrt(3) * (tv**2 + 2e-3 * tv) + 1e-9


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.lists(st.floats(0.05, 1), min_size=3, max_size=3))
def test_the_effect_on_cells_is_at_least_twice_their_total_variation(drawn: list[float], expected: list[float]) -> None:
    p0 = np.array(expected) / sum(expected)
    p = (np.array(drawn) + 1e-6) / (sum(drawn) + 3e-6)
    assert math.sqrt(((p - p0) ** 2 / p0).sum()) >= np.abs(p - p0).sum() - 1e-12


def test_plans_are_those_of_the_statistics() -> None:
    neyman, alpha = REGISTRY["pit_time.neyman"], LOOK.alpha
    tilt = KINDS["tilt"]
    tv = tilt.proven_tv(20_000, alpha)
    assert tv is not None
    assert tilt.slope * tv == pytest.approx(neyman.min_effect(20_000, alpha))
    assert need_theta(0.05, LOOK)[0].proven == neyman.min_n(0.05, alpha)
    shown = next(n for n in need_ks(0.03, LOOK) if n.key == "ks_shown")
    assert shown.proven == REGISTRY["pit_time.ks"].min_n(0.03, alpha)
    found = {s.key: s for s in smallest(20_000, LOOK, 3)}
    assert found["theta"].proven == neyman.min_effect(20_000, alpha)
    assert found["ks"].refused == budget.delta_ks(20_000)
    assert found["ks"].proven is None


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("tv", [0.01, 0.03, 0.1])
def test_both_ways_round_agree(key: str, tv: float) -> None:
    kind = KINDS[key]
    n = kind.proven_n(tv, LOOK.alpha)
    if n is None:
        assert kind.most_n is not None
        assert (kind.proven_tv(10**9, LOOK.alpha) or 1) > tv
        return
    back, fewer = kind.proven_tv(n, LOOK.alpha), kind.proven_tv(int(0.99 * n), LOOK.alpha)
    assert back is not None
    assert back <= tv * (1 + 1e-9)
    assert n == kind.least_n or fewer is None or fewer > tv


def test_more_power_level_or_tests_cost_events() -> None:
    base = need_theta(0.05, LOOK)[0].proven or 0
    assert (need_theta(0.05, LOOK, power=0.99)[0].proven or 0) > base
    assert (need_theta(0.05, Look(LOOK.tests, LOOK.level / 10))[0].proven or 0) > base
    assert (need_theta(0.05, Look(2 * LOOK.tests))[0].proven or 0) > base
    assert standard_look(1, 5, white=True).tests < standard_look(3, 5, white=False).tests < LOOK.tests


def test_every_tv_can_hide_and_types_need_types() -> None:
    assert need_tv(0.5, LOOK, 3)[-1].key == "hidden"
    assert {n.key for n in need_tv(0.02, LOOK, 1)} == {"tilt", "monotone", "crossing", "hidden"}


def test_the_listing_formula_agrees_with_neyman_to_a_percent() -> None:
    for level in (2e-5, 1e-6, 1e-8):
        for n in (2_000, 32_000):
            exact = REGISTRY["pit_time.neyman"].min_effect(n, level / budget.CONFIRMATION_ROUNDS / plan.TYPICAL_TESTS)
            assert plan.min_detectable_theta(n, level) == pytest.approx(exact, rel=0.01)


# -- the command --------------------------------------------------------------------------------------------------------------
def test_how_many_sequences(ask: Callable[..., Result]) -> None:
    done = ask("--tv", ".02", "--length", "100")
    assert done.exit_code == 0, done.output
    assert "506 (50,544)" in done.output
    assert "any direction, however fine" in done.output
    rows = {n["key"]: n for n in json.loads(ask("--tv", ".02", "--length", "100", "--json").output)["needs"]}
    assert (rows["monotone"]["proven"], rows["monotone"]["proven_sequences"]) == (50_544, 506)
    assert rows["hidden"]["proven"] is None
    assert "guaranteed: no PASS" in ask("--ks", ".03").output
    assert "11,664" in ask("--theta", ".05").output
    assert "toward a draft of TV 0.3" in ask("--lambda", ".05", "--draft-tv", ".3").output
    found = json.loads(ask("--events", "32768", "--types", "1", "--access", "grey", "--json").output)
    assert {s["key"] for s in found["smallest"]} == {"theta", "ks", "tilt", "monotone", "crossing", "tail", "pair"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "Ask one question"),
        (["--tv", ".1", "--ks", ".1"], "Ask one question"),
        (["--tv", "2"], "at most 1"),
        (["--lambda", ".1"], "add --draft-tv"),
        (["--theta", "-1"], "above 0"),
        (["--tv", ".1", "--power", "1"], "less than 1"),
        (["--tv", ".1", "--level", "0"], "strictly between"),
        (["nowhere"], "is not a run folder"),
        (["nowhere", "--tv", ".1"], "only --power and --json"),
    ],
)
def test_bad_questions_are_one_sentence(words: list[str], part: str, ask: Callable[..., Result]) -> None:
    done = ask(*words)
    assert done.exit_code == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def law_cell(**more: object) -> CellResult:
    law = Axis.LAW
    evidence = (
        Evidence("pit_time.neyman", law, p_value=0.4, n=8000),
        Evidence("score.type.constant", law, p_value=0.4, n=8000, null="chi2(1)"),
        Evidence("strata.pit_time", law, p_value=0.5, n=900, where={"position": "bonus"}),
        Evidence("strata.pit_time", law, p_value=0.5, n=3000, where={"position": "0"}),
        Evidence("draft_direction.gap", law, p_value=0.5, n=8000, effect=0.0, interval=(-0.0098, 0.0098)),
        Evidence("pit_time.theta_1", law, p_value=0.5, n=8000, display=True),
        Evidence("blackbox.maxT", law, p_value=0.5, n=80),
    )
    verdict = Verdict(law, Outcome.PASS, "L.", level=3e-6)
    figures = {"acceptance_gap": 0.7, **more}
    return CellResult(
        "law.a", "law", "a", "stress", "t", n_events=8000, verdicts=(verdict,), evidence=evidence, figures=figures
    )


def test_a_cell_is_read_by_its_design_or_else_by_its_evidence() -> None:
    guessed = missed(law_cell())
    assert guessed is not None
    assert (guessed.n, guessed.n_types, guessed.look.tests, guessed.access) == (8000, 2, 5, "white B")
    assert guessed.look.level == pytest.approx(2e-6)
    design = {"tests": 180, "level": 1e-6, "rounds": 2, "n_types": 2, "n_events": 2000}
    known = missed(law_cell(design=design))
    assert known is not None
    assert (known.n, known.look) == (2000, Look(180, 1e-6, 2))
    theta, tv, lam = known.of("theta"), known.of("draft_gap"), known.of("lambda_gap")
    assert theta is not None
    assert theta.proven == REGISTRY["pit_time.neyman"].min_effect(2000, 1e-6 / 2 / 180)
    assert tv is not None
    assert lam is not None
    assert lam.proven is not None
    assert tv.proven == pytest.approx(0.3 * lam.proven)
    assert known.strata["position"] == pytest.approx(
        tuple(REGISTRY["strata"].min_effect(n, known.look.alpha) for n in (3000, 900))
    )
    assert missed(CellResult("speed.a", "speed", "a", "", "t")) is None


def test_what_a_run_could_have_missed(tmp_path: Path, ask: Callable[..., Result]) -> None:
    folder = RunFolder.open(tmp_path / "r", {"digest": "d", "provenance": {"started": ""}, "suite": {}}, resume=False)
    write_cell(folder.folder, law_cell(), {})
    folder.summarise(["law.a"])
    out = str(folder.finish())
    done = ask(out)
    assert done.exit_code == 0, done.output
    assert "law.a" in done.output
    assert "Not found at any number of events" in done.output
    cell = json.loads(ask(out, "--json", "--power", ".99").output)["cells"][0]
    again = missed(law_cell(), 0.99)
    assert again is not None
    assert [s["proven"] for s in cell["smallest"]] == [s.proven for s in again.smallest]
    assert cell["never"]


def test_blind_spots_follow_the_access() -> None:
    grey, white = (set(blind_spots(a, horizon=False, n_types=3)) for a in ("grey", "white B"))
    assert white < grey
    assert any("likelihood" in b for b in blind_spots("black", horizon=True, n_types=3))
    assert any("types" in b for b in set(blind_spots("grey", horizon=True, n_types=1)) - grey)
