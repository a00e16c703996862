"""Write the zoo's table into docs/mutants.md, or print it: ``python -m reference_impls.mutants [FILE]``."""

from __future__ import annotations

import sys
from pathlib import Path

from reference_impls.mutants import Mutant, controls, mutant, names

BEGIN = "<!-- table: python -m reference_impls.mutants docs/mutants.md -->"


def table() -> str:
    """Both tables, in Markdown."""
    lines = ["| fault | what is broken | who had it | killers | blessed by | witness |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{m.name}`{_dose(m)} | {m.broken} | {m.precedent} | {_codes(m.killers)} | {'; '.join(m.blessed_by) or '—'} | {_witness(m)} |"
        for m in map(mutant, names())
    ]
    lines += ["", "| exact control | what is unusual | precedent | runs on |", "|---|---|---|---|"]
    lines += [f"| `{m.name}` | {m.broken} | {m.precedent} | {_witness(m)} |" for m in map(mutant, controls())]
    return "\n".join(lines) + "\n"


def _dose(m: Mutant) -> str:
    return f" (dose {', '.join(f'{dose:g}' for dose in m.doses)})" if m.doses else ""


def _codes(killers: tuple[str, ...]) -> str:
    return ", ".join(f"`{k}`" for k in killers)


def _witness(m: Mutant) -> str:
    w = m.witness
    rule = ", joint" if w.rule == "leviathan_joint" else ""
    stop = f", horizon {w.horizon:g}" if w.horizon is not None else ""
    return f"`{w.pair}`, {w.draft} draft, K = {w.k}{stop}{rule}"


def main() -> None:
    if len(sys.argv) < 2:
        print(table(), end="")
        return
    page = Path(sys.argv[1])
    before = page.read_text(encoding="utf-8").partition(BEGIN)[0]
    page.write_text(f"{before}{BEGIN}\n\n{table()}", encoding="utf-8")


if __name__ == "__main__":
    main()
