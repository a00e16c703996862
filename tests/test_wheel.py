"""The wheel, built from the source archive and installed alone, works in an empty folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOT_SOURCE = (".git", ".venv*", "venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", "runs", ".hypothesis", ".asv")

pytestmark = pytest.mark.slow


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built the way a release is: source archive first, wheel from it."""
    source, out = tmp_path_factory.mktemp("source") / "tree", tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    recent = int(metadata.version("setuptools").split(".")[0]) >= 77
    run([sys.executable, "-m", "build", *(["--no-isolation"] if recent else []), "--outdir", str(out)], source)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the wheel in it; a path file lends it this environment's dependencies, but no editable install."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
    interpreter = folder / "bin" / "python"
    run(
        [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "-q", "--no-deps", "--no-index", str(wheel)],
        folder,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return str(interpreter)


def test_only_the_two_packages_are_importable(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"tppsd_bench", "reference_impls"}
    assert not [n for n in names if "asv" in n]


def test_every_module_suite_template_recipe_and_checkpoint_travels(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        *(str(p.relative_to(ROOT)) for package in ("tppsd_bench", "reference_impls") for p in (ROOT / package).rglob("*.py")),
        *(f"tppsd_bench/{p.relative_to(ROOT)}" for p in (ROOT / "suites").glob("*.toml")),
        *(f"tppsd_bench/{p.relative_to(ROOT)}" for p in (ROOT / "reports/templates").rglob("*") if p.is_file()),
        *(str(p.relative_to(ROOT)) for p in (ROOT / "reference_impls/training/recipes").glob("*.toml")),
        *(
            str(p.relative_to(ROOT))
            for p in (ROOT / "reference_impls/checkpoints").rglob("*")
            if p.suffix in {".safetensors", ".json"}
        ),
        "tppsd_bench/py.typed",
        "reference_impls/py.typed",
    }
    assert not expected - names


def test_the_wheel_lists_its_suites_in_an_empty_folder(python: str, tmp_path: Path) -> None:
    where = run([python, "-c", "import tppsd_bench; print(tppsd_bench.__file__)"], tmp_path)
    assert ROOT not in Path(where.strip()).parents
    listed = run([python, "-m", "tppsd_bench", "list"], tmp_path)
    suites = [s.stem for s in (ROOT / "suites").glob("*.toml")]
    assert suites
    assert all(name in listed for name in suites)
    assert not list(tmp_path.iterdir())


def test_the_wheel_shows_a_plan_and_lists_its_recipes(python: str, tmp_path: Path) -> None:
    assert "law.thp-hawkes.shipped.k5" in run([python, "-m", "tppsd_bench", "show", "calibration"], tmp_path)
    code = "from reference_impls.training.recipe import recipe_names; print(*recipe_names())"
    assert set(run([python, "-c", code], tmp_path).split()) == {
        p.stem for p in (ROOT / "reference_impls/training/recipes").glob("*.toml")
    }


def test_the_wheel_runs_the_smoke_suite_in_an_empty_folder(python: str, tmp_path: Path) -> None:
    said = run([python, "-m", "tppsd_bench", "run", "--suite", "smoke", "--quiet"], tmp_path)
    assert "PASS" in said
    (report,) = tmp_path.glob("reports/runs/smoke-*/report.html")
    assert report.stat().st_size > 10_000


def test_the_wheel_finds_its_templates(python: str, tmp_path: Path) -> None:
    code = "from tppsd_bench import resources; print(*sorted(p.name for p in resources.path('reports', 'templates').iterdir()))"
    names = run([python, "-c", code], tmp_path).split()
    assert names == sorted(p.name for p in (ROOT / "reports/templates").iterdir())
