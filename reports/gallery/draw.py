"""Draws correct_and_broken.png of the README: the gap PIT of the two samplers in docs/examples at 20,000 events, seed 0."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tppsd_bench.budget import delta_ks
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.stats.bands import ecdf_difference_band
from tppsd_bench.streams import StreamKey

HERE = Path(__file__).resolve().parent
SEQUENCES, EVENTS = 200, 100


def gap_pit(module: str) -> np.ndarray:
    """u = F(gap | history) of every event, under the process's own law."""
    sampler = importlib.import_module(module).Hawkes()
    run = sampler.sample(SampleRequest(SEQUENCES, Stop(n_events=EVENTS), StreamKey(seed=0, suite="gallery")))
    return np.sort(sampler.score(run.events).cdf)


def main() -> None:
    sys.path.insert(0, str(HERE.parents[1] / "docs" / "examples"))
    n = SEQUENCES * EVENTS
    grid, lower, upper = ecdf_difference_band(n, 0.95, np.random.default_rng(0))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    shown = (("ogata_hawkes", "The correct sampler", "#1b6b44"), ("ogata_hawkes_broken", "One character missing", "#b3261e"))
    for axis, (module, title, colour) in zip(axes, shown, strict=True):
        u = gap_pit(module)
        axis.axhspan(-delta_ks(n), delta_ks(n), color="#e9e6dd", label="margin: smaller does not matter", zorder=0)
        axis.fill_between(grid, lower, upper, color="#a9b4c2", label="95 % band of chance", zorder=1, lw=0)
        axis.plot(grid, np.searchsorted(u, grid, side="right") / n - grid, color=colour, lw=1.8, label="sampler minus law")
        axis.set(title=title, xlabel="u = F(gap | history)", xlim=(0, 1))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("ECDF difference")
    axes[1].legend(frameon=False, loc="lower right", fontsize=9)
    figure.savefig(HERE / "correct_and_broken.png", dpi=120)


if __name__ == "__main__":
    main()
