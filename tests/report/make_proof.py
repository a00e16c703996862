"""A synthetic run of the proof: a zoo of faults and controls, dose curves and null calibration with numbers made by hand.

``make_proof(folder)`` writes a finished run folder through ``tppsd_bench.store`` and returns it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.stats.base import clopper_pearson
from tppsd_bench.stats.columns import COLUMNS
from tppsd_bench.store import RunFolder, write_cell

SEEDS = 72
LAW = ("pit_time", "strata", "score", "draft_direction")
TYPES = ("pit_type", "pair", "strata", "score", "draft_direction")
EVERYTHING = tuple(c for c in COLUMNS if c not in ("preconditions", "reproducible", "counts", "support", "accounting"))
# name -> (gross, columns that see it in every run, columns that see it at times, ETD on its witness, on the reference toy)
FAULTS: dict[str, tuple[bool, tuple[str, ...], dict[str, int], int | None, int | None]] = {
    "always_accept": (True, (*EVERYTHING, "support"), {}, 90, 420),
    "residual_from_draft": (True, (*LAW, "pair", "role_law", "support", "e_process"), {"blackbox": 60}, 240, 1300),
    "noncausal_verify": (True, ("density_agreement", "preconditions"), {"pair": 31}, 600, 1900),
    "seed_constant": (True, ("cross_sequence",), {}, None, None),
    "clip_gap": (True, ("tail", "strata", "e_process"), {"pit_time": 20}, 800, 1500),
    "keep_crossing": (True, ("counts",), {"blackbox": 40}, 2600, None),
    "extra_event": (True, ("accounting", "strata"), {"pit_time": 12}, 700, 1700),
    "all_or_nothing": (True, ("strata", "draft_direction", "acceptance_identity", "e_process"), {"first_events": 50}, 300, 900),
    "type_unverified": (False, (*TYPES, "acceptance_identity", "e_process"), {"blackbox": 44}, 900, 8200),
    "stale_history": (False, ("strata", "score", "pair", "density_agreement"), {"e_process": 68}, 1500, 12_500),
    "bonus_from_draft": (False, ("strata", "role_law"), {"draft_direction": 70, "pit_time": 3}, 2100, 16_000),
    "residual_from_target": (False, ("support", "role_law", "pit_time"), {"pair": 9}, 1800, 18_800),
    "residual_cap": (False, ("support",), {}, None, None),
    "colder_draft": (False, ("draft_law",), {"pit_time": 66, "e_process": 50}, 3800, 19_500),
    "split_residual": (False, ("pair", "role_law"), {"acceptance_identity": 71}, 2700, 15_100),
    "public_release": (True, (*LAW, "pair", "support", "density_agreement", "accounting", "e_process"), {}, 120, 510),
}
WEAK = {"colder_draft": 69}
CONTROLS = ("no_bonus", "k_one", "draft_is_target", "k_varies", "stale_draft_consistent", "exact_match_types")


def rate(hits: int, n: int, level: float = 0.95) -> dict[str, float]:
    low, high = clopper_pearson(hits, n, level)
    return {"hits": hits, "n": n, "low": low, "high": high}


def etd(median: int | None, budget: int = 40_000) -> dict[str, Any]:
    if median is None:
        return {"median": None, "low": None, "high": None, "n": 24, "missed": 24, "budget": budget}
    return {"median": median, "low": 0.7 * median, "high": 1.5 * median, "n": 24, "missed": 0, "budget": budget}


def power_cell(name: str, kind: str = "power") -> CellResult:
    control = name in CONTROLS
    gross, always, at_times, here, there = FAULTS.get(name, (True, (), {}, None, None))
    seeds = SEEDS if kind == "power" else 4
    hits = 0 if control else min(WEAK.get(name, seeds), seeds)
    kills = {c: rate(seeds if c in always else min(at_times.get(c, 0), seeds), seeds) for c in COLUMNS if c != "reproducible"}
    if name in ("keep_crossing", "no_bonus"):
        del kills["pit_type"]
    figures = {
        "mutant": name, "control": control, "broken": f"One decision of {name.replace('_', ' ')} is changed.",
        "precedent": "published code", "killers": list(always[:3]), "blessed_by": ["two-sample tests of gaps"], "gross": gross,
        "faults": ["type_unverified", "residual_cap"] if name == "public_release" else [], "tv_gap": 0.24, "tv_type": 0.21,
        "acceptance": 0.61, "seeds": seeds, "n_events": 8000, "caught": rate(hits, seeds),
        "caught_by": {
            "law": rate(0 if control or name in ("residual_cap", "noncausal_verify") else hits, seeds),
            "mechanism": rate(hits if "support" in always else 0, seeds), "validity": rate(0, seeds),
        },
        "kills": kills, "etd": None if control else etd(here), "etd_reference": None if control or not there else etd(there),
        "ranked": None if control else {
            "first": rate(seeds if gross else seeds // 2, seeds), "top3": rate(seeds // 3 if name == "split_residual" else seeds, seeds)
        },
    }  # fmt: skip
    good = hits == (0 if control else seeds)
    verdict = Verdict(Axis.VALIDITY, Outcome.PASS if good else Outcome.FAIL, f"The suite sees {name} in {hits} of {seeds}.")
    pair = "toy-marked" if kind == "power" else "thp-hawkes"
    return CellResult(f"{kind}.{name}", kind, pair, "stress", f"Toy: {name}", name, 5, verdicts=(verdict,), figures=figures)


def dose_cell(name: str, doses: list[float], hits: list[int], resolution: float | None) -> CellResult:
    figures = {
        "mutant": name, "doses": doses, "caught": [rate(h, 24) for h in hits], "resolution": resolution, "n_events": 8000,
        "etd": [etd(None if h < 12 else 60_000 // (h + 1)) for h in hits], "tv": [0.002 * (i + 1) ** 2 for i in range(len(doses))],
        "seeds": 24, "broken": f"{name.replace('_', ' ').capitalize()}, by degrees.",
    }  # fmt: skip
    verdict = Verdict(Axis.VALIDITY, Outcome.PASS, f"{name} by dose.")
    return CellResult(
        f"dose.{name}", "dose", "toy-marked", "stress", f"Toy: {name} by dose", name, verdicts=(verdict,), figures=figures
    )


def null_cell(name: str, runs: int, at_05: int, at_01: int, alarms: int = 0) -> CellResult:
    figures = {
        "sampler": name, "runs": runs, "n_events": 2000, "false_alarms": rate(alarms, runs),
        "rates": {"0.05": rate(at_05, runs, 0.99), "0.01": rate(at_01, runs, 0.99)},
        "second_level": {"pit_time.neyman": 0.41, "pair.gap_gap": 0.03, "tail.low_1e-2": 0.77}, "second_level_p": 0.09,
    }  # fmt: skip
    verdict = Verdict(Axis.VALIDITY, Outcome.PASS, f"No false alarm in {runs} exact runs of {name}.")
    return CellResult(
        f"null.{name}", "null", "toy-marked", "stress", f"Toy: {name}", name, verdicts=(verdict,), figures=figures
    )


def cells() -> list[CellResult]:
    broken = CellResult("power.stop_batch_at_first", "power", "toy-marked", "stress", "Toy", error="InputError: made to break.")
    return [
        *map(power_cell, [*FAULTS, *CONTROLS]), broken, power_cell("type_unverified", "transformer"),
        dose_cell("lenient", [1.0, 1.01, 1.02, 1.05, 1.1, 1.5], [0, 2, 11, 24, 24, 24], 1.05),
        dose_cell("clip_gap", [0.999, 0.99, 0.9], [24, 24, 24], 0.999),
        dose_cell("timeout_to_draft", [0.01, 0.1, 1.0], [0, 3, 20], None),
        null_cell("target_only", 400, 17, 3), null_cell("speculative", 400, 22, 5), null_cell("k_varies", 200, 12, 1),
    ]  # fmt: skip


def make_proof(folder: Path, *more: CellResult) -> Path:
    """Write the run folder."""
    run = {
        "digest": "proof",
        "suite": {"name": "power"},
        "pairs": {},
        "provenance": {"started": "", "command": "run --suite power"},
    }
    opened = RunFolder.open(folder, run, resume=False)
    written = [*cells(), *more]
    for cell in written:
        write_cell(opened.folder, cell, {})
    opened.summarise([c.id for c in written])
    return opened.finish()
