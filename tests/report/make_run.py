"""A realistic synthetic run folder: every kind of cell and every outcome, without running a sampler.

``make_run(folder)`` writes run.json, results.json, cells/*.json and cells/*.npz as the runner does and returns the folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import budget
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict, to_json
from tppsd_bench.streams import StreamKey

PAIRS = {
    "thp_hawkes": "THP 20 × 8, univariate Hawkes",
    "sahp_hawkes2": "SAHP 20 × 8, two-type Hawkes",
    "thp_poisson": "THP 6 × 4, inhomogeneous Poisson",
    "attnhp_self_correcting": "AttNHP 6 × 4, self-correcting, 3 types",
    "sahp_earthquake": "SAHP 8 × 4, earthquakes",
    "thp_taxi": "THP 8 × 4, taxi pick-ups",
}
PROVENANCE: dict[str, Any] = {
    "command": "python -m tppsd_bench run --suite calibration --seed 20250301 --out reports/runs/demo",
    "started": "2025-03-01T09:12:04+00:00",
    "finished": "2025-03-01T09:13:31+00:00",
    "python": "3.11.9",
    "versions": {"tppsd_bench": "0.1.0", "numpy": "2.1.0", "scipy": "1.14.1", "torch": "2.5.1", "matplotlib": "3.9.2"},
    "cpu": "Example CPU @ 2.60GHz",
    "cores": 2,
    "threads": 1,
    "torch_threads": 1,
    "blas": "OpenBLAS 0.3.28 (Haswell)",
    "git": "0123456789abcdef0123456789abcdef01234567",
    "seed": 20250301,
    "platform": "Linux-6.1-x86_64",
    "fingerprint": "b1946ac92492",
}
UNVERIFIED = (
    "Types do not follow the target: θ₁ of the type PIT is 0.31 at every position in the "
    "round, as when drafted types are kept unverified."
)


def _rng(cell: str) -> np.random.Generator:
    return StreamKey(seed=1, suite="report", cell=cell).generator()


def _theta(values: np.ndarray, k: int) -> float:
    legendre = np.polynomial.legendre.legval(2 * values - 1, [0] * k + [1])
    return float(np.sqrt(2 * k + 1) * legendre.mean())


def _pit_evidence(u: np.ndarray, family: str, where: dict[str, str] | None = None) -> list[Evidence]:
    """KS and θ₁..₄ of one stream, as the grey box reports them (pooled ones are primary)."""
    n, x = len(u), np.sort(u)
    steps = np.arange(1, n + 1) / n
    ks = float(max((steps - x).max(), (x - steps + 1 / n).max()))
    half, pooled = 1.96 / np.sqrt(n), not where
    base = {"axis": Axis.LAW, "n": n, "where": where or {}, "primary": pooled, "display": not pooled}
    out = [
        Evidence(
            f"{family}.ks",
            p_value=min(1.0, 2 * np.exp(-2 * n * ks**2)),
            statistic=ks * np.sqrt(n),
            effect=ks,
            effect_name="KS distance",
            interval=(max(ks - half / 2, 0), ks + half / 2),
            margin=budget.delta_ks(n) if pooled else None,
            min_detectable=2.9 / np.sqrt(n),
            null="Kolmogorov",
            method="one-sample KS, asymptotic",
            **base,
        )
    ]
    for k in range(1, 5):
        theta = _theta(u, k)
        z = theta * np.sqrt(n)
        out.append(
            Evidence(
                f"{family}.theta_{k}",
                p_value=float(2 * np.exp(-z * z / 2) / max(abs(z) + 1, 2)),
                statistic=z,
                effect=theta,
                effect_name=f"theta_{k}",
                interval=(theta - half, theta + half),
                margin=budget.delta_theta(n) if pooled else None,
                min_detectable=5.9 / np.sqrt(n),
                null="N(0, 1)",
                method="Legendre score",
                **base,
            )
        )
    return out


def _evidence(u: np.ndarray, v: np.ndarray, lam: tuple[float, float], m: int) -> tuple[Evidence, ...]:
    n = len(u)
    out = _pit_evidence(u, "pit_time") + (_pit_evidence(v, "pit_type") if m > 1 else [])
    for position in range(6):
        part = slice(position, None, 6)
        out += [
            e for e in _pit_evidence(v[part], "pit_type", {"position": str(position)}) if "theta_1" in e.name or "ks" in e.name
        ]
        out += [e for e in _pit_evidence(u[part], "pit_time", {"position": str(position)}) if "theta" in e.name]
    for value, component in zip(lam, ("gap", "type"), strict=True):
        half = 3.2 / np.sqrt(n)
        out.append(
            Evidence(
                f"draft_direction.{component}",
                Axis.LAW,
                p_value=0.4 if value < 0.1 else 1e-200,
                effect=value,
                effect_name="lambda (0 = target, 1 = draft)",
                interval=(value - half, value + half),
                min_detectable=9.6 / np.sqrt(n),
                n=n,
                null="N(0, 1)",
            )
        )
    out += [
        Evidence(
            "preconditions.density", Axis.VALIDITY, passed=True, n=64, method="quadrature", detail="largest |∫f − 1| is 3e-9"
        ),
        Evidence("pair.independence", Axis.LAW, p_value=0.62, statistic=45.2, n=n, null="chi2(49)"),
        Evidence(
            "blackbox.maxT",
            Axis.LAW,
            p_value=0.41 if lam[1] < 0.1 else 1e-4,
            statistic=1.9,
            n=200,
            null="permutation of sequences, B = 9,999",
        ),
        Evidence("acceptance_identity.gap", Axis.MECHANISM, p_value=0.33, statistic=0.97, n=n, null="N(0, 1)"),
        Evidence("support.gap", Axis.MECHANISM, passed=True, n=n // 20, detail="no residual draw with p < q"),
    ]
    return tuple(out)


def _sequences(rng: np.random.Generator, n: int, length: int, m: int, tilt: float, prefix: str) -> dict[str, np.ndarray]:
    gaps = rng.lognormal(-0.4, 0.9, n * length)
    types = rng.choice(m, n * length, p=_tilted(m, tilt))
    times = np.cumsum(gaps.reshape(n, length), axis=1)
    return {
        f"{prefix}gaps": gaps,
        f"{prefix}types": types,
        f"{prefix}lengths": np.full(n, length),
        f"{prefix}raster_times": times[:24].ravel(),
        f"{prefix}raster_sequence": np.repeat(np.arange(24), length),
        f"{prefix}acf": 0.35 * 0.72 ** np.arange(12) + rng.normal(0, 0.012, 12),
    }


def _tilted(m: int, tilt: float) -> np.ndarray:
    p = 1 / np.arange(1, m + 1) ** 0.8
    p[0] *= 1 + tilt
    return p / p.sum()


def law_cell(
    pair: str, draft: str, *, n: int = 32_000, m: int = 1, leak: float = 0.0, kind: str = "law", verdicts: tuple[Verdict, ...]
) -> tuple[CellResult, dict[str, np.ndarray]]:
    """A law (or horizon) cell; ``leak`` is the share of type PITs that do not follow the target."""
    name = f"{kind}-{pair}-{draft}"
    rng = _rng(name)
    length = 160
    sequences = n // length
    u, v = rng.random(n), rng.random(n)
    v = np.where(rng.random(n) < leak, v**2.2, v)
    reached = np.round(n / 6 * (0.95 if draft == "shipped" else 0.62) ** np.arange(5)).astype(int)
    rates = np.clip((0.96 if draft == "shipped" else 0.64) + rng.normal(0, 0.004, 5), 0, 1)
    arrays = {
        "u": u,
        "v": v,
        "completed_u": u,
        "event_index": np.tile(np.arange(length), sequences),
        "acf_lags": np.arange(1, 13),
        "position_reached": reached,
        "position_accepted": np.round(reached * rates).astype(int),
        **_sequences(rng, sequences, length, m, leak, ""),
        **_sequences(rng, sequences, length, m, 0.0, "ref_"),
    }
    lam = (float(rng.normal(0, 0.008)), leak + float(rng.normal(0, 0.008)))
    figures = {
        "acceptance_gap": float(rates.mean()) + 0.01,
        "acceptance_type": 0.99,
        "acceptance_event": float(rates.mean()),
        "acceptance_by_position": [float(r) for r in rates],
        "forwards_per_event": 0.21 if draft == "shipped" else 0.46,
        "reference_forwards_per_event": 0.994,
        "events_per_forward": 4.7 if draft == "shipped" else 2.2,
        "tv_gap": 0.02 if draft == "shipped" else 0.27,
        "tv_event": 0.03 if draft == "shipped" else 0.33,
        "lambda_gap": {"value": lam[0], "low": lam[0] - 0.018, "high": lam[0] + 0.018},
        "lambda_type": {"value": lam[1], "low": lam[1] - 0.018, "high": lam[1] + 0.018},
    }
    cell = CellResult(
        id=name,
        kind=kind,
        pair=pair,
        draft=draft,
        title=f"{PAIRS[pair]}, {draft} draft",
        sampler="reference_impls.samplers:Speculative",
        k=5,
        stop={"n_events": 160} if kind == "law" else {"horizon": 100.0},
        seed=20250301,
        n_sequences=sequences,
        n_events=n,
        verdicts=verdicts,
        evidence=_evidence(u, v, lam, m),
        counts={
            "target_calls": 900,
            "target_row_forwards": int(n * 0.21),
            "drafted": n + 1200,
            "verified": n,
            "rounds": n // 5,
        },
        reference_counts={"target_calls": 160, "target_row_forwards": n - sequences},
        figures=figures,
        arrays=tuple(arrays),
        seconds=4.2,
        not_possible=() if draft == "stress" else ("role_law: the draft's conditional law was not handed out (white box B)",),
    )
    return cell, arrays


def speed_cell(pair: str, best: float, *, recompute: float, pays: bool) -> tuple[CellResult, dict[str, np.ndarray]]:
    name, ks = f"speed-{pair}", [1, 2, 4, 8, 12]
    rng = _rng(name)
    shape = np.array([0.42, 0.62, 0.86, 1.0, 0.95])
    values = best * shape
    by_k = [
        {"k": k, "value": float(s), "low": float(s * 0.98), "high": float(s * 1.02), "predicted": float(s * 1.03)}
        for k, s in zip(ks, values, strict=True)
    ]
    base = 2.74
    figures = {
        "baseline_ms": base,
        "recompute_ms": base * recompute / best,
        "speedup_cpu": {"value": best, "low": best * 0.98, "high": best * 1.02},
        "speedup_wall": {"value": best * 0.97, "low": best * 0.9, "high": best * 1.05},
        "speedup_recompute": {"value": recompute, "low": recompute * 0.97, "high": recompute * 1.03},
        "best_k": 8,
        "ks": ks,
        "speedup_by_k": by_k,
        "aa_ratio": {"value": 1.001, "low": 0.996, "high": 1.006},
        "pays": pays,
        "pays_sentence": "Speculation pays: the whole interval lies above 1."
        if pays
        else "Speculation does not pay here: the draft step costs too much of a target step.",
    }
    verdict = Verdict(
        Axis.SPEED,
        Outcome.PASS,
        f"{best:.2f} times as fast as cached target-only at K = 8." if pays else "Measured cleanly; no K reaches break-even.",
        n=30,
    )
    arrays = {
        "k": np.array(ks),
        "log_ratio_cpu": np.log(values) + rng.normal(0, 0.004, (30, 5)),
        "log_ratio_wall": np.log(values) + rng.normal(0, 0.05, (30, 5)),
        "predicted": values * 1.03,
        "cost_history": np.array([50, 100, 500, 1000, 2000, 4000]),
        "cost_ms": np.array([2.5, 2.6, 3.1, 3.7, 4.9, 7.4]),
    }
    return CellResult(
        id=name,
        kind="speed",
        pair=pair,
        draft="shipped",
        title=f"{PAIRS[pair]}, time",
        seed=20250301,
        n_sequences=1,
        n_events=100,
        verdicts=(verdict,),
        figures=figures,
        arrays=tuple(arrays),
        seconds=5.8,
    ), arrays


def fit_cell(pair: str, *, pointless: bool) -> tuple[CellResult, dict[str, np.ndarray]]:
    gap = 0.001 if pointless else -0.043
    figures: dict[str, Any] = {
        "nll_target": 0.412,
        "nll_renewal": 0.51,
        "nll_draft": 0.412 - gap,
        "nll_target_minus_draft": {"value": gap, "low": gap - 0.004, "high": gap + 0.004},
    }
    if not pointless:
        figures |= {"nll_true": 0.405, "lead_share": 0.93}
    figures["pointless"] = pointless
    figures["fit_sentence"] = (
        "Speculation pointless: the draft is as good."
        if pointless
        else "The target keeps 93 % of the true process's lead over a renewal fit."
    )
    return CellResult(
        id=f"fit-{pair}",
        kind="fit",
        pair=pair,
        draft="shipped",
        title=f"{PAIRS[pair]}, fit",
        figures=figures,
        n_events=4_000,
        seconds=0.4,
    ), {}


def _verdicts(
    law: Outcome,
    sentence: str,
    *,
    validity: Outcome = Outcome.PASS,
    mechanism: Outcome = Outcome.PASS,
    needed: int | None = None,
    n: int = 32_000,
) -> tuple[Verdict, ...]:
    valid = (
        "Every precondition of the target holds."
        if validity is Outcome.PASS
        else "The target is not causal: appending an event changes earlier scores by 0.04, so no law can be judged."
    )
    rule = {
        Outcome.PASS: "Every recount, density and acceptance agrees with the declared rule.",
        Outcome.FAIL: "Types were kept without being verified.",
        Outcome.NOT_APPLICABLE: "The sampler declares no rule.",
    }[mechanism]
    return (
        Verdict(Axis.VALIDITY, validity, valid),
        Verdict(
            Axis.LAW,
            law,
            sentence,
            q_value=0.48 if law is not Outcome.FAIL else 1e-180,
            level=budget.RUN_LEVEL,
            rounds=3 if law is Outcome.FAIL else 1,
            n=n,
            needed_n=needed,
        ),
        Verdict(Axis.MECHANISM, mechanism, rule, q_value=0.6, level=budget.MECHANISM_LEVEL),
        Verdict(Axis.EFFICIENCY, Outcome.PASS, "0.21 target forwards per event, as the accepted share predicts."),
    )


def _cells() -> list[tuple[CellResult, dict[str, np.ndarray]]]:
    exact = "No departure from the target's law; every primary effect lies inside its margin."
    broken = CellResult(
        id="law-thp_taxi-stress",
        kind="law",
        pair="thp_taxi",
        draft="stress",
        title=f"{PAIRS['thp_taxi']}, stress draft",
        error="RunBroken: sequence 17 of the stress draft gave a gap of inf <at event 41>; expected a finite positive gap.",
    )
    screen = CellResult(
        id="screen-sahp_hawkes2",
        kind="screen",
        pair="sahp_hawkes2",
        draft="shipped",
        title=f"{PAIRS['sahp_hawkes2']}, range screen",
        n_sequences=200,
        n_events=32_000,
        evidence=(
            Evidence(
                "blackbox.range_screen",
                Axis.LAW,
                p_value=0.7,
                statistic=3,
                n=200,
                display=True,
                detail="3 of 200 sequences beyond the other arm's extremes",
            ),
        ),
    )
    return [
        law_cell("thp_hawkes", "shipped", n=8_000, verdicts=_verdicts(Outcome.PASS, exact, n=8_000)),
        law_cell("thp_hawkes", "stress", n=8_000, verdicts=_verdicts(Outcome.PASS, exact, n=8_000)),
        speed_cell("thp_hawkes", 4.31, recompute=38.2, pays=True),
        fit_cell("thp_hawkes", pointless=False),
        law_cell("sahp_hawkes2", "stress", m=2, verdicts=_verdicts(Outcome.PASS, exact)),
        (screen, {}),
        speed_cell("sahp_hawkes2", 0.91, recompute=7.9, pays=False),
        law_cell(
            "thp_poisson",
            "shipped",
            n=3_200,
            kind="horizon",
            verdicts=_verdicts(
                Outcome.INCONCLUSIVE,
                "Too few events to bound θ₂ of the gaps below its margin; 11,000 would do.",
                mechanism=Outcome.NOT_APPLICABLE,
                needed=11_000,
                n=3_200,
            ),
        ),
        law_cell(
            "attnhp_self_correcting",
            "stress",
            m=3,
            leak=0.3,
            verdicts=_verdicts(Outcome.FAIL, UNVERIFIED, mechanism=Outcome.FAIL),
        ),
        speed_cell("attnhp_self_correcting", 3.05, recompute=21.4, pays=True),
        law_cell(
            "sahp_earthquake",
            "stress",
            m=16,
            verdicts=_verdicts(Outcome.INVALID, "No statement: the evidence is invalid.", validity=Outcome.INVALID),
        ),
        fit_cell("sahp_earthquake", pointless=True),
        law_cell("thp_taxi", "shipped", m=10, verdicts=_verdicts(Outcome.PASS, exact)),
        (broken, {}),
    ]


def make_run(folder: Path) -> Path:
    """Write the run folder."""
    (folder / "cells").mkdir(parents=True)
    run = {
        "suite": {"name": "calibration", "title": "Calibration", "profile": "quick"},
        "pairs": {k: {"title": v} for k, v in PAIRS.items()},
        "status": "finished",
        "provenance": PROVENANCE,
    }
    cells = _cells()
    for cell, arrays in cells:
        (folder / "cells" / f"{cell.id}.json").write_text(json.dumps(to_json(cell)))
        if arrays:
            np.savez(folder / "cells" / f"{cell.id}.npz", **arrays)
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "results.json").write_text(json.dumps({"run": run, "cells": [to_json(cell) for cell, _ in cells]}))
    return folder
