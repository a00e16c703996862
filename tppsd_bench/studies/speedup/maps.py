"""Maps of shades: speed over K by pair, batch and length; where the speed goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tppsd_bench.report.section import HeatMap, Shade
from tppsd_bench.report.wording import interval, times
from tppsd_bench.studies.speedup.reading import SiteView

_KEY = "darker is faster; the best K of each row is marked"


def all_maps(sites: Sequence[SiteView]) -> tuple[HeatMap, ...]:
    """K by pair at the commonest batch and length; K by batch and K by length of every pair that has several."""
    commonest = max({(s.batch, s.length) for s in sites}, key=lambda at: sum((s.batch, s.length) == at for s in sites))
    plain = [s for s in sites if (s.batch, s.length) == commonest]
    others = [s for s in sites if (s.batch, s.length) != commonest and not _in_a_row(s, sites)]
    maps = [over_k(f"K by pair, {plain[0].where}", "pair", plain, lambda s: s.drafted_by)]
    for by, fixed, name in (("batch", "length", "batch"), ("length", "batch", "events")):
        groups: dict[tuple[str, int], list[SiteView]] = {}
        for s in sites:
            groups.setdefault((s.drafted_by, getattr(s, fixed)), []).append(s)
        for (pair, at), members in groups.items():
            if len(members) > 1:
                held = f"{at:,} events" if fixed == "length" else f"batch {at}"
                rows = sorted(members, key=lambda s: int(getattr(s, by)))
                maps.append(over_k(f"K by {by}: {pair}, {held}", name, rows, lambda s, by=by: f"{getattr(s, by):,}"))  # type: ignore[misc]
    if others:
        maps.append(over_k("K at other sites", "site", others, lambda s: s.label))
    return tuple(maps)


def _in_a_row(site: SiteView, sites: Sequence[SiteView]) -> bool:
    """Whether a map by batch or by length shows the site."""
    same = [s for s in sites if s.drafted_by == site.drafted_by and s is not site]
    return any(s.length == site.length or s.batch == site.batch for s in same)


def over_k(caption: str, corner: str, sites: Sequence[SiteView], name: Callable[[SiteView], str]) -> HeatMap:
    """Speed by K, a row a site; the darkest is the map's fastest."""
    ks = sorted({p.k for s in sites for p in s.points})
    top = max(math.log(max(p.speed[0], 1.0)) for s in sites for p in s.points) or 1.0
    rows = []
    for s in sites:
        found, best = {p.k: p for p in s.points}, s.fastest.k
        shades = []
        for k in ks:
            p = found.get(k)
            if p is None:
                shades.append(Shade(""))
                continue
            low = p.speed[0] < 1
            dark = 100 * math.log(max(p.speed[0], 1.0)) / top
            title = f"K = {k}: {times(p.speed[0])}, {interval(p.speed[1:])}; promised {times(p.promised)}"
            shades.append(Shade(f"{p.speed[0]:.2f}", 45.0 if low else dark, k == best, low, title))
        rows.append((name(s), tuple(shades)))
    return HeatMap(caption, corner, tuple(f"K = {k}" for k in ks), tuple(rows), _KEY)


def losses(sites: Sequence[SiteView]) -> HeatMap:
    """Shares of log((K + 1) / speed) by cause, at the K the law chose."""
    causes = {"acceptance": "acceptance", "draft": "draft steps", "verification": "growth of the pass", "overhead": "overhead"}
    rows = []
    for s in sites:
        lost = s.chosen.row["loss"]
        shares = {c: 100 * lost[c] / lost["total"] if lost["total"] > 0 else 0.0 for c in causes}
        most = max(shares, key=lambda c: shares[c])
        shades = tuple(
            Shade(f"{shares[c]:.0f}".replace("-", "−"), max(shares[c], 0.0), c == most, title=f"{lost[c]:.3f} in log speed")
            for c in causes
        )
        rows.append((f"{s.label}, K = {s.chosen.k}", shades))
    key = "percent of what is lost; the largest cause of each row is marked"
    return HeatMap("Where the speed goes", "site", tuple(causes.values()), tuple(rows), key)
