"""The cards of the draft zoo as Markdown tables: ``python -m reference_impls.drafts.table``. What docs/drafts.md shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reference_impls.drafts.files import FOLDER
from reference_impls.pairs import CHECKPOINTS

DISTILLED = "-distilled"
HEADER = (
    "| draft | parameters | µs a step | nats/event, plain | distilled | events accepted, plain | distilled | gain in points |"
    " gap, type, plain |\n|---|---|---|---|---|---|---|---|---|"
)


def cards() -> list[Path]:
    return sorted(CHECKPOINTS.glob(f"*/{FOLDER}/card.json"))


def percent(value: dict[str, float], digits: int = 1) -> str:
    return f"{100 * value['value']:.{digits}f}"


def points(value: dict[str, float]) -> str:
    """A difference of shares with its interval, in points; a true minus sign."""
    texts = (f"{100 * value[key]:+.2f}" for key in ("value", "low", "high"))
    return "{} ({} to {})".format(*texts).replace("-", "−")


def row(name: str, plain: dict[str, Any], distilled: dict[str, Any] | None) -> str:
    accepted = plain["acceptance"]
    cells = [name, f"{plain['parameters']:,}", f"{plain['step_us']:.0f}", f"{plain['nll']['value']:.4f}"]
    cells.append("" if distilled is None else f"{distilled['nll']['value']:.4f}")
    cells.append(percent(accepted["event"]))
    cells += (
        ["", ""] if distilled is None else [percent(distilled["acceptance"]["event"]), points(distilled["minus_like"]["event"])]
    )
    cells.append(f"{percent(accepted['gap'])}, {percent(accepted['type'])}")
    return f"| {' | '.join(cells)} |"


def table(card: dict[str, Any]) -> list[str]:
    """The rows of one target: its shipped draft, then each architecture, best plain acceptance first."""
    drafts = card["drafts"]
    plain = sorted((n for n in drafts if not n.endswith(DISTILLED)), key=lambda n: -drafts[n]["acceptance"]["event"]["value"])
    return [row("shipped", card["shipped"], None), *(row(name, drafts[name], drafts.get(name + DISTILLED)) for name in plain)]


def main() -> None:
    for path in cards():
        card = json.loads(path.read_text(encoding="utf-8"))
        of = card["target"]
        print(f"**{card['pair']}**: target {of['parameters']:,} parameters, {of['nll']['value']:.4f} nats/event.\n")
        print(HEADER, *table(card), "", sep="\n")


if __name__ == "__main__":
    main()
