"""House rules a machine can check: import directions, what needs torch, module length, checkpoints, links, words."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference_impls.pairs import CHECKPOINTS
from reference_impls.training.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tppsd_bench", "reference_impls")
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
TEXT_FOLDERS = (*PACKAGES, "tests", "docs", "suites", "reports/templates", ".ci", ".github")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".html", ".css", ".js", ".yml", ".json", ".j2", ""}
HARD_LIMIT = 400
CHECKPOINT_BYTES = 25_000_000
CARDS = sorted(CHECKPOINTS.glob("*/card.json"))

FORBIDDEN = (
    # (folder, what it must not import)
    ("tppsd_bench", ("reference_impls",)),
    ("reference_impls", ("tppsd_bench.report", "tppsd_bench.runner", "tppsd_bench.cli")),
    ("tppsd_bench/stats", ("tppsd_bench.report", "tppsd_bench.runner", "tppsd_bench.cli", "reference_impls")),
    ("tppsd_bench/measure", ("tppsd_bench.report", "tppsd_bench.runner", "tppsd_bench.cli", "torch")),
    ("tppsd_bench/report", ("tppsd_bench.runner", "tppsd_bench.cli", "torch")),
)


def imported(source: str, package: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that a module of ``package`` imports, at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def within(name: str, banned: tuple[str, ...]) -> bool:
    return any(name == b or name.startswith(b + ".") for b in banned)


def package_of(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).parent.parts)


@pytest.mark.parametrize(("folder", "banned"), FORBIDDEN, ids=[f for f, _ in FORBIDDEN])
def test_imports_go_one_way(folder: str, banned: tuple[str, ...]) -> None:
    wrong = [
        f"{module.relative_to(ROOT)}:{line} imports {name}"
        for module in sorted((ROOT / folder).rglob("*.py"))
        for line, name in imported(module.read_text(encoding="utf-8"), package_of(module))
        if within(name, banned)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "statement",
    [
        "import reference_impls.pairs",
        "def f():\n    from reference_impls import pairs",
        "from .. import report",
        "from ..report.build import build_report",
        "from tppsd_bench import report",
    ],
)
def test_the_import_check_sees_every_form_of_import(statement: str) -> None:
    names = [name for _, name in imported(statement, "tppsd_bench.stats")]
    assert any(within(name, ("reference_impls", "tppsd_bench.report")) for name in names)
    assert not any(within(name, ("reference_impl", "tppsd_bench.rep")) for name in names)


def imported_by(statements: str) -> set[str]:
    """Top-level names of all modules that a fresh interpreter holds after ``statements``."""
    code = f"import sys\n{statements}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_no_module_of_the_harness_imports_torch_or_a_model() -> None:
    modules = [".".join(m.relative_to(ROOT).with_suffix("").parts) for m in MODULES if m.is_relative_to(ROOT / "tppsd_bench")]
    assert len(modules) > 50
    loaded = imported_by("\n".join(f"import {m.removesuffix('.__init__')}" for m in modules))
    assert "numpy" in loaded
    assert not loaded & {"torch", "reference_impls"}


def test_samplers_and_toys_work_without_torch() -> None:
    folder = ROOT / "reference_impls/samplers"
    modules = [f"reference_impls.samplers.{m.stem}" for m in folder.glob("*.py") if m.stem != "__init__"]
    modules += ["reference_impls.toys", "reference_impls.stress", "reference_impls.mutants"]
    uses = "from reference_impls.pairs import card, load_pair, names\n[card(name) for name in names()]\n"
    uses += "load_pair('toy-marked').sampler('speculative')"
    assert "torch" not in imported_by("\n".join([*(f"import {m}" for m in modules), uses]))
    assert "torch" in imported_by("import reference_impls.network")


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.parent.name)
def test_a_card_belongs_to_its_files_and_its_recipe(path: Path) -> None:
    """The weights are those the card was written for, and the recipe that ships is the one they were trained by."""
    card = json.loads(path.read_text(encoding="utf-8"))
    assert card["name"] == path.parent.name
    weights = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in path.parent.glob("*.safetensors")}
    assert weights == card["sha256"]
    recipe = load_recipe(card["name"]).model_dump(mode="json")
    assert recipe == card["recipe"]


def test_checkpoints_are_complete_and_small() -> None:
    pairs = {p.parent.name for p in CARDS}
    calibration = tomllib.loads((ROOT / "suites/calibration.toml").read_text(encoding="utf-8"))
    assert set(calibration["pairs"]) <= pairs
    suites = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "suites").glob("*.toml"))
    assert {name for name in pairs if f'"{name}"' not in suites} == set(), "a pair that ships is in a suite"
    files = [p for p in CHECKPOINTS.rglob("*") if p.is_file()]
    assert {p.name for p in files if p.parent.name != "drafts"} == {"card.json", "target.safetensors", "draft.safetensors"}
    assert {p.suffix for p in files if p.parent.name == "drafts"} <= {".json", ".safetensors"}
    assert sum(p.stat().st_size for p in files) < CHECKPOINT_BYTES


def test_modules_stay_readable() -> None:
    lengths = {m: len(m.read_text(encoding="utf-8").splitlines()) for m in MODULES}
    assert lengths, "no module was found"
    long = [f"{m.relative_to(ROOT)}: {n} lines" for m, n in lengths.items() if n > HARD_LIMIT]
    assert not long, f"longer than {HARD_LIMIT} lines, split them:\n" + "\n".join(long)


def test_no_module_is_named_after_nothing() -> None:
    vague = [str(m.relative_to(ROOT)) for m in MODULES if m.stem in {"utils", "util", "helpers", "helper", "misc", "common"}]
    assert not vague


def pytest_commands(text: str) -> list[str]:
    return re.findall(r"python -m pytest[^\n`&]*", text)


def test_the_readme_and_ci_run_the_same_test_command() -> None:
    readme = [c.strip() for c in pytest_commands((ROOT / "README.md").read_text(encoding="utf-8"))]
    ci = [c.strip() for c in pytest_commands((ROOT / ".ci/run").read_text(encoding="utf-8"))]
    assert readme, "README.md states no test command"
    assert set(readme) <= set(ci)
    assert "-m slow" in " ".join(ci)


def test_every_suite_has_a_page() -> None:
    missing = [s.name for s in (ROOT / "suites").glob("*.toml") if not (ROOT / "docs/suites" / f"{s.stem}.md").is_file()]
    assert not missing, f"suites without docs/suites/NAME.md: {missing}"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_links_to_files_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def text_files() -> Iterator[Path]:
    yield from (p for p in ROOT.glob("*") if p.is_file() and p.suffix in {".md", ".toml", ".py", ".in"})
    for folder in TEXT_FOLDERS:
        yield from (
            p
            for p in (ROOT / folder).rglob("*")
            if p.is_file() and p.suffix in TEXT_SUFFIXES and "__pycache__" not in p.parts and p.stat().st_size < 1_000_000
        )


def matches(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{i}: {line.strip()[:100]}"
        for file in text_files()
        if file != Path(__file__).resolve()
        for i, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


WORDS = {
    "a path of one machine": re.compile(r"(?<![\w.$}])/(work|tmp|root|home)/[\w.]"),
    "who or what wrote the code": re.compile(
        r"\b(AI[- ](assistant|agent|generated)|chatbot|copilot|anthropic|openai)\b(?!\.genai)", re.I
    ),
    "work left undone": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "a p-value compared with a habit": re.compile(r"^\s*assert .*\bp(_?val(ue)?)? *> *0?\.0[15]\b"),
}


@pytest.mark.parametrize("what", WORDS)
def test_no_text_contains(what: str) -> None:
    found = matches(WORDS[what])
    assert not found, "\n".join(found)


def test_the_word_check_can_fail() -> None:
    for pattern, line in zip(WORDS.values(), ("see /tmp/x", "an AI assistant", "# TODO mend", "assert p > 0.05"), strict=True):
        assert pattern.search(line)
