"""View models of the first screen: from cells to the sentences, chips and numbers of each pair. No HTML here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report import wording
from tppsd_bench.report.glossary import LEAD_WORDS
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome
from tppsd_bench.stats.missed import missed

LAW_KINDS = ("law", "horizon")
_SEVERITY = ("fail", "mechanism", "invalid", "broken", "inconclusive", "incomplete", "pass", "none")
_WORST = (Outcome.FAIL, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.NOT_APPLICABLE)
_COUNT = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Lead:
    """The answer to "is it exact" in a word, its icon, and the sentence behind it."""

    key: str
    sentence: str

    @property
    def word(self) -> str:
        return LEAD_WORDS[self.key]

    @property
    def icon(self) -> str:
        return {"mechanism": "fail", "incomplete": "inconclusive"}.get(self.key, self.key)


@dataclass(frozen=True)
class Chip:
    """One of the five verdicts: axis, icon and word (never colour alone)."""

    axis: str
    icon: str
    word: str
    question: str


@dataclass(frozen=True)
class Glyph:
    """Where an interval lies against its margin, on a line 200 units long."""

    margins: tuple[float, ...]
    low: float
    high: float
    value: float
    zero: float
    beyond: bool
    label: str


@dataclass(frozen=True)
class PairCard:
    """A pair's row of the first screen."""

    id: str
    title: str
    lead: Lead
    chips: tuple[Chip, ...]
    effect: str
    margin: str
    glyph: Glyph | None
    hiding: str
    speedup: str
    speedup_interval: str
    recompute: str
    recompute_interval: str
    pays: bool | None
    pays_sentence: str
    notes: tuple[str, ...]


def cell_lead(cell: CellResult) -> Lead:
    """The answer a single cell gives."""
    if cell.error:
        return Lead("broken", cell.error)
    validity, law, mechanism = (cell.verdict(a) for a in (Axis.VALIDITY, Axis.LAW, Axis.MECHANISM))
    if validity and validity.outcome in (Outcome.INVALID, Outcome.FAIL):
        return Lead("invalid", validity.sentence)
    if law and law.outcome is Outcome.INVALID:
        return Lead("invalid", law.sentence)
    if law and law.outcome is Outcome.FAIL:
        return Lead("fail", law.sentence)
    if mechanism and mechanism.outcome is Outcome.FAIL:
        return Lead("mechanism", mechanism.sentence)
    for verdict in (validity, law, mechanism):
        if verdict and verdict.outcome is Outcome.INCONCLUSIVE:
            return Lead("inconclusive", verdict.sentence)
    if law and law.outcome is Outcome.PASS:
        return Lead("pass", law.sentence)
    return Lead("none", "")


def pair_lead(cells: Sequence[CellResult]) -> Lead:
    """The gravest answer of a pair's law cells; a broken law cell leaves even a clean pair incomplete."""
    law = [c for c in cells if c.kind in LAW_KINDS]
    if not law:
        return Lead("none", "No law cell in this run.")
    leads = [cell_lead(c) for c in law]
    finished = [lead for lead in leads if lead.key != "broken"]
    if not finished:
        return Lead("broken", leads[0].sentence)
    worst = min(finished, key=lambda lead: _SEVERITY.index(lead.key))
    if worst.key == "pass" and len(finished) < len(leads):
        return Lead(
            "incomplete", f"{len(leads) - len(finished)} of {len(leads)} law cells broke; no departure found in the rest."
        )
    return Lead("pass", _clean(law)) if worst.key == "pass" else worst


def _clean(cells: Sequence[CellResult]) -> str:
    """What a PASS rests on, in fewer words than its verdicts, which the cells give in full."""
    drafts = [d for d in dict.fromkeys(c.draft for c in cells) if d]
    proposing = f" with the {' and the '.join(drafts)} draft" if drafts else ""
    judged = " and ".join(f"{n:,}" for n in dict.fromkeys(c.n_events for c in cells) if n)
    return f"No departure in {judged or 'the'} events{proposing}; every primary effect lies inside its margin."


def axis_chip(axis: Axis, cells: Iterable[CellResult]) -> Chip:
    """The gravest verdict on one axis; PASS becomes ``incomplete`` where a cell that should have spoken broke."""
    cells = list(cells)
    verdicts = [v for c in cells if (v := c.verdict(axis))]
    kinds = ("speed",) if axis is Axis.SPEED else LAW_KINDS
    broken = [c for c in cells if c.error and c.kind in kinds]
    question = wording.QUESTIONS[axis]
    if not verdicts:
        return Chip(axis.value, "broken" if broken else "none", "broken" if broken else "not run", question)
    outcome = min((v.outcome for v in verdicts), key=_WORST.index)
    if broken and outcome is Outcome.PASS:
        return Chip(axis.value, "inconclusive", "incomplete", question)
    word = "n/a" if outcome is Outcome.NOT_APPLICABLE else outcome.value
    return Chip(axis.value, wording.ICONS[outcome.value], word, question)


def chips(cells: Iterable[CellResult]) -> tuple[Chip, ...]:
    cells = list(cells)
    return tuple(axis_chip(axis, cells) for axis in Axis)


def leading_effect(cells: Sequence[CellResult]) -> tuple[CellResult, Evidence] | None:
    """The primary effect whose interval reaches farthest against its margin: the one that decides a PASS."""

    def reach(evidence: Evidence) -> float:
        ends = wording.span(evidence.interval)
        return 0.0 if ends is None or not evidence.margin else max(abs(ends[0]), abs(ends[1])) / evidence.margin

    primary = [(c, e) for c in cells if c.kind in LAW_KINDS for e in c.evidence if e.primary and e.effect is not None]
    return max(primary, key=lambda pair: reach(pair[1]), default=None)


def glyph(evidence: Evidence) -> Glyph | None:
    ends = wording.span(evidence.interval)
    if ends is None or not evidence.margin or evidence.effect is None:
        return None
    margin, signed = evidence.margin, wording.unit(evidence) != "KS"
    reach = 1.15 * max(margin, abs(ends[0]), abs(ends[1]))
    start, scale = (-reach, 200 / (2 * reach)) if signed else (0.0, 200 / reach)
    at = [round((v - start) * scale, 1) for v in (*ends, evidence.effect, 0.0, margin, -margin)]
    beyond = max(-ends[0], ends[1]) > margin
    label = f"The interval reaches {'beyond' if beyond else 'not beyond'} the margin of {wording.number(margin)}."
    return Glyph(tuple(at[4:] if signed else at[4:5]), at[0], at[1], at[2], at[3], beyond, label)


def effect_sentence(found: tuple[CellResult, Evidence] | None) -> str:
    """``type PIT θ₁ location −0.192 (−0.203 to −0.181), stress draft``."""
    if found is None:
        return ""
    cell, evidence = found
    value, ends = wording.effect(evidence.effect, evidence.interval)
    text = f"{wording.effect_label(evidence)} {value}" + (f" ({ends})" if ends else "")
    return f"{text}, {cell.draft} draft" if cell.draft else text


def margin_words(found: tuple[CellResult, Evidence] | None) -> str:
    if found is None or not found[1].margin:
        return ""
    return f"margin {'' if wording.unit(found[1]) == 'KS' else '±'}{wording.number(found[1].margin, 2)}"


def hiding_sentence(cells: Sequence[CellResult]) -> str:
    """What the pair's most sensitive law cell would still miss: ``θ up to 0.045, KS 0.020, TV 0.026, λ 0.025``.

    θ, λ and TV (of a departure that only rises or only falls) must be larger to be proven, the KS distance to be refused a pass.
    """
    reach = [m for c in cells if (m := missed(c)) is not None]
    parts: list[str] = []
    for name, keys in (("θ", ("theta",)), ("KS", ("ks",)), ("TV", ("monotone",)), ("λ", ("lambda_gap", "lambda_type"))):
        found = [s for m in reach for k in keys if (s := m.of(k)) is not None]
        sizes = [x for s in found if (x := s.refused if s.key == "ks" else s.proven) is not None]
        if sizes:
            parts.append(f"{name}\N{NO-BREAK SPACE}{'' if parts else 'up to '}{wording.number(min(sizes), 2)}")
    return ", ".join(parts)


def _speed(cells: Sequence[CellResult]) -> dict[str, Any]:
    """The figures of the pair's speed cell (its best, were there several)."""

    def value(cell: CellResult) -> float:
        found = wording.estimate(cell.figures.get("speedup_cpu"))
        return found[0] if found else 0.0

    timed = [c for c in cells if c.kind == "speed" and not c.error]
    return max(timed, key=value).figures if timed else {}


def _with_interval(figure: Any) -> tuple[str, str]:
    found = wording.estimate(figure)
    if found is None:
        return "", ""
    value, ends = found
    return wording.times(value), "" if ends is None else f"{wording.times(ends[0])[:-1]} to {wording.times(ends[1])[:-1]}"


def pair_card(name: str, title: str, cells: Sequence[CellResult]) -> PairCard:
    """The row of one pair."""
    figures = _speed(cells)
    speedup, speedup_interval = _with_interval(figures.get("speedup_cpu"))
    recompute, recompute_interval = _with_interval(figures.get("speedup_recompute"))
    pays = figures.get("pays")
    found = leading_effect(cells)
    notes = [wording.clause(str(s)) for c in cells if (s := c.figures.get("fit_sentence")) and c.figures.get("pointless")]
    notes += [f"Cell {c.id} broke." for c in cells if c.error]
    return PairCard(
        id=name,
        title=title,
        lead=pair_lead(cells),
        chips=chips(cells),
        effect=effect_sentence(found),
        margin=margin_words(found),
        glyph=glyph(found[1]) if found else None,
        hiding=hiding_sentence(cells),
        speedup=speedup,
        speedup_interval=speedup_interval,
        recompute=recompute,
        recompute_interval=recompute_interval,
        pays=pays if isinstance(pays, bool) else None,
        pays_sentence=_pays(figures),
        notes=tuple(notes),
    )


def _pays(figures: dict[str, Any]) -> str:
    """Short: the run's own sentence, with the reason, stands in the cell."""
    match figures.get("pays"):
        case True:
            best = figures.get("best_k")
            return "Pays" + (f", best at K = {best}" if best is not None else "")
        case False:
            return "Does not pay"
    return "Undecided whether it pays" if figures.get("pays_sentence") else ""


def count_word(n: int) -> str:
    return _COUNT[n] if n < len(_COUNT) else f"{n:,}"


def headline(cards: Sequence[PairCard]) -> str:
    """One sentence for the whole run: ``Two of six pairs sample exactly; one does not, one is undecided.``"""
    if not cards:
        return "This run holds no finished cell."
    if len(cards) == 1:
        return f"{cards[0].title}: {cards[0].lead.word.lower()}."
    total, by_key = len(cards), {k: sum(c.lead.key == k for c in cards) for k in _SEVERITY}
    if by_key["pass"] == total:
        return f"{'Both' if total == 2 else f'All {count_word(total)}'} pairs sample exactly."
    one, many = 0, 1
    clauses = {
        "fail": ("does not", "do not"),
        "mechanism": ("breaks its declared rule", "break their declared rule"),
        "invalid": ("has invalid evidence", "have invalid evidence"),
        "inconclusive": ("is undecided", "are undecided"),
        "incomplete": ("is incomplete", "are incomplete"),
        "broken": ("broke", "broke"),
        "none": ("was not tested", "were not tested"),
    }
    rest = [f"{count_word(n)} {words[one if n == 1 else many]}" for k, words in clauses.items() if (n := by_key[k])]
    verb = "samples" if by_key["pass"] == 1 else "sample"
    return f"{count_word(by_key['pass']).capitalize()} of {count_word(total)} pairs {verb} exactly; {', '.join(rest)}."


def pays_headline(cards: Sequence[PairCard]) -> str:
    judged = [c for c in cards if c.pays is not None]
    open_ = sum(c.pays is None and bool(c.speedup) for c in cards)
    if not judged:
        return ""
    paying = sum(c.pays is True for c in judged)
    undecided = f"; undecided for {count_word(open_)}" if open_ else ""
    if len(judged) == 1:
        return f"Speculation {'pays' if paying else 'does not pay'}{undecided}."
    if paying == len(judged):
        return f"Speculation pays for {'both' if paying == 2 else f'all {count_word(paying)}'} pairs that could be judged{undecided}."
    return f"Speculation pays for {count_word(paying) if paying else 'none'} of {count_word(len(judged))} pairs{undecided}."
