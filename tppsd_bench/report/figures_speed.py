"""Figures of speed and fit cells: speedup over K, time per event, its growth with history, likelihoods."""

from __future__ import annotations

from typing import Any

from tppsd_bench.report.canvas import ACCENT, INK, MUTED, REFERENCE, Canvas
from tppsd_bench.report.picture import Arrays, Picture, legend, log_ticks, nice_ticks, spread, together
from tppsd_bench.report.wording import estimate, finite, number, times
from tppsd_bench.results import CellResult


def speed_pictures(cell: CellResult, arrays: Arrays, canvas: Canvas) -> list[Picture]:
    drawn = [_over_k(cell, canvas), _time_per_event(cell, canvas), _history(arrays, canvas)]
    return [p for p in drawn if p is not None]


def fit_pictures(cell: CellResult, canvas: Canvas) -> list[Picture]:
    picture = _likelihoods(cell, canvas)
    return [] if picture is None else [picture]


def _rows_by_k(cell: CellResult) -> list[dict[str, Any]]:
    listed = cell.figures.get("speedup_by_k")
    rows = (
        [r for r in listed if isinstance(r, dict) and finite(r.get("k")) and finite(r.get("value"))]
        if isinstance(listed, list)
        else []
    )
    return sorted(rows, key=lambda r: float(r["k"]))


def _over_k(cell: CellResult, canvas: Canvas) -> Picture | None:
    rows = _rows_by_k(cell)
    if not rows:
        return None
    at = list(range(len(rows)))  # K = 1, 2, 5, 10: equal steps keep the labels apart
    values = [float(r["value"]) for r in rows]
    ends = [(finite(r.get("low")) or v, finite(r.get("high")) or v) for r, v in zip(rows, values, strict=True)]
    predicted = [(i, p) for i, r in zip(at, rows, strict=True) if (p := finite(r.get("predicted"))) is not None]
    top = 1.12 * max([*values, *(h for _, h in ends), *(p for _, p in predicted), 1.0])
    canvas.start(206)
    axes = canvas.axes(
        (44, 30, 16, 42),
        x=(-0.5, len(rows) - 0.5),
        y=(0, top),
        x_ticks=[(float(i), f"{r['k']:g}") for i, r in zip(at, rows, strict=True)],
        y_ticks=[(t, f"{name}×") for t, name in nice_ticks(0, top, 5)],
        x_label="K, drafted events a round",
    )
    axes.axhline(1, color=MUTED, linewidth=1, dashes=(4, 3))
    axes.text(len(rows) - 0.52, 1, "break-even", ha="right", va="bottom", color=MUTED, fontsize=10)
    if predicted:
        axes.plot(*zip(*predicted, strict=True), color=REFERENCE, linewidth=1.2, dashes=(2, 2))
    axes.vlines(at, [lo for lo, _ in ends], [hi for _, hi in ends], color=ACCENT, linewidth=1.8)
    axes.plot(at, values, "o", ms=5, color=ACCENT)
    predicted_key = ("--", "none", REFERENCE, "predicted by the throughput law")
    legend(axes, ("o", ACCENT, ACCENT, "measured"), *[predicted_key] * bool(predicted), apart=84)
    best = max(range(len(rows)), key=values.__getitem__)
    label = (
        f"Speedup over cached target-only by K: best {times(values[best])} at K = "
        f"{rows[best]['k']:g}, interval {times(ends[best][0])} to {times(ends[best][1])}."
    )
    return Picture(
        "Speedup over K",
        "CPU time per committed event, cached target-only over speculative; bars are "
        "intervals of the paired log ratio by order statistics.",
        canvas.finish(label),
    )


def _time_per_event(cell: CellResult, canvas: Canvas) -> Picture | None:
    base, recompute = finite(cell.figures.get("baseline_ms")), finite(cell.figures.get("recompute_ms"))
    speedup = estimate(cell.figures.get("speedup_cpu"))
    if base is None:
        return None
    speculative = finite(cell.figures.get("speculative_ms")) or (base / speedup[0] if speedup and speedup[0] > 0 else None)
    rows = [
        ("target-only, recomputing", recompute),
        ("target-only, cached", base),
        ("speculative", speculative),
    ]
    known = [(text, ms) for text, ms in rows if ms is not None and ms > 0]
    if not known:
        return None
    low, high = 0.6 * min(ms for _, ms in known), 1.9 * max(ms for _, ms in known)
    canvas.start(46 + 34 * len(known))
    axes = canvas.axes(
        (146, 6, 24, 40),
        x=(low, high),
        y=(-0.6, len(known) - 0.4),
        x_ticks=log_ticks(low, high),
        y_ticks=[(float(len(known) - 1 - i), text) for i, (text, _) in enumerate(known)],
        x_label="ms per event (log scale)",
        log_x=True,
        grid="xy",
    )
    for i, (text, ms) in enumerate(known):
        y = len(known) - 1 - i
        axes.plot(ms, y, "o", ms=7, color=ACCENT if text == "speculative" else REFERENCE)
        axes.annotate(number(ms), (ms, y), (0, 8), textcoords="offset points", ha="center", color=INK, fontsize=10)
    label = "CPU milliseconds per event: " + ", ".join(f"{text} {number(ms)}" for text, ms in known) + "."
    return Picture(
        "Time per event",
        "CPU time per committed event, one thread. The cached target-only sampler is the "
        "honest baseline; the recomputing one is what published code does.",
        canvas.finish(label),
    )


def _history(arrays: Arrays, canvas: Canvas) -> Picture | None:
    pair = together(arrays, "cost_history", "cost_ms")
    if pair is None or len(pair[0]) < 2:
        return None
    history, ms = pair
    (low, high), top = spread(list(history), 0.03), 1.12 * float(ms.max())
    canvas.start(190)
    axes = canvas.axes(
        (44, 14, 20, 42),
        x=(low, high),
        y=(0, top),
        x_ticks=nice_ticks(float(history.min()), float(history.max()), 5),
        y_ticks=nice_ticks(0, top),
        x_label="events of history",
    )
    axes.plot(history, ms, "-", color=ACCENT, linewidth=1.2)
    axes.plot(history, ms, "o", ms=5, color=ACCENT)
    label = (
        f"Cached target-only time per event: {number(float(ms[0]))} ms at a history of "
        f"{history[0]:.0f} events, {number(float(ms[-1]))} ms at {history[-1]:.0f}."
    )
    return Picture(
        "Cost of history",
        "Milliseconds per event of the cached target-only sampler as the history grows.",
        canvas.finish(label),
    )


def _likelihoods(cell: CellResult, canvas: Canvas) -> Picture | None:
    names = {"nll_true": "true process", "nll_target": "target", "nll_draft": "draft", "nll_renewal": "i.i.d. renewal"}
    known = [(text, found[0]) for key, text in names.items() if (found := estimate(cell.figures.get(key)))]
    if len(known) < 2:
        return None
    low, high = spread([x for _, x in known], 0.16)
    canvas.start(50 + 26 * len(known))
    axes = canvas.axes(
        (96, 8, 30, 42),
        x=(low, high),
        y=(-0.6, len(known) - 0.4),
        x_ticks=nice_ticks(low, high, 4),
        y_ticks=[(float(len(known) - 1 - i), text) for i, (text, _) in enumerate(known)],
        x_label="held-out NLL, nats per event",
        grid="xy",
    )
    for i, (text, x) in enumerate(known):
        y = len(known) - 1 - i
        axes.plot(x, y, "o", ms=7, color=ACCENT if text == "target" else REFERENCE)
        axes.annotate(
            f"{x:.3f}".replace("-", "−"), (x, y), (0, 7), textcoords="offset points", ha="center", color=INK, fontsize=10
        )
    label = "Held-out negative log-likelihood in nats per event: " + ", ".join(f"{text} {x:.3f}" for text, x in known) + "."
    return Picture("Held-out likelihood", "Smaller is better. This judges the model, not the sampler.", canvas.finish(label))
