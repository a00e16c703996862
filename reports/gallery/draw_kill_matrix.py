"""Draws kill_matrix.png of the README from a run of the suite power: ``python reports/gallery/draw_kill_matrix.py RUN``."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from tppsd_bench.report.kill_matrix import label, matrix
from tppsd_bench.store import read_cells

HERE = Path(__file__).resolve().parent


def main() -> None:
    found = matrix(list(read_cells(Path(sys.argv[1])).values()))
    assert found is not None, "the run has no power cells"
    groups = [(title, rows) for title, rows in found.groups if "network" not in title]
    height = [len(rows) for _, rows in groups]
    figure, axes = plt.subplots(
        len(groups), 1, figsize=(8.6, 0.2 * sum(height) + 2.2), height_ratios=height, layout="constrained", sharex=True
    )
    for axis, (title, rows) in zip(axes, groups, strict=True):
        values = np.array([[np.nan if f.percent is None else f.percent for f in row.fields] for row in rows])
        sns.heatmap(
            values, ax=axis, cmap=sns.light_palette("#0b5c8f", as_cmap=True), vmin=0, vmax=100, cbar=False, linewidths=1,
            linecolor="white", yticklabels=[row.name for row in rows], xticklabels=[label(c) for c in found.columns],
        )  # fmt: skip
        axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axis.tick_params(length=0, labelsize=8)
    axes[0].xaxis.set_tick_params(labeltop=True, labelrotation=90)
    axes[-1].xaxis.set_tick_params(labelbottom=False)
    figure.savefig(HERE / "kill_matrix.png", dpi=120)


if __name__ == "__main__":
    main()
