"""The report of a proof in a real browser: nothing spills, nothing complains, everything is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from make_proof import FAULTS, make_proof
from test_report_browser import LAPTOP, OPEN_ALL, PHONE, Visit, browser, pytestmark  # noqa: F401  (fixture and marks)

from tppsd_bench.report import build_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_report(make_proof(tmp_path_factory.mktemp("browser") / "proof"))


@pytest.fixture
def visit(browser: Any, report: Path) -> Iterator[Any]:  # noqa: F811
    opened: list[Visit] = []

    def go(size: tuple[int, int] = LAPTOP, scheme: str = "light", javascript: bool = True) -> Visit:
        opened.append(Visit(browser, report, size, scheme, javascript))
        return opened[-1]

    yield go
    for one in opened:
        one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_quiet_alone_within_the_page_and_accessible(visit: Any, size: tuple[int, int], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    seen = visit(size, scheme)
    for action in ("0", OPEN_ALL):
        seen.page.evaluate(action)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    found = axe.Axe().run(seen.page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
    assert seen.complaints == []
    assert [r for r in seen.requests if not r.startswith(("file:", "data:"))] == []


def test_names_stay_while_the_matrix_scrolls_in_its_own_box(visit: Any) -> None:
    page = visit(PHONE).page
    box, name = page.locator(".killbox"), page.locator(".kill tbody th[scope=row]").first
    assert box.evaluate("b => b.scrollWidth > b.clientWidth")
    before = name.bounding_box()["x"]
    box.evaluate("b => { b.scrollLeft = 200; }")
    assert name.bounding_box()["x"] == pytest.approx(before, abs=4)  # the spacing of the table


def test_shades_follow_power(visit: Any) -> None:
    """Full, part and none are three colours; a false alarm would be a fourth."""
    page = visit().page

    def colour(title: str) -> str:
        found = page.locator(f".kill td[title^='{title}']").first
        return str(found.evaluate("td => getComputedStyle(td).backgroundColor"))

    seen = [colour(f"always_accept × {c}") for c in ("gap PIT", "counts")] + [colour("extra_event × gap PIT")]
    assert len(set(seen)) == 3


def test_a_row_leads_to_its_fault(visit: Any) -> None:
    page = visit().page
    page.locator(".kill a", has_text="residual_cap").click()
    opened = page.locator("details.cell[open]")
    assert opened.count() == 1
    assert "Precedent" in opened.inner_text()


def test_the_verdict_and_the_matrix_begin_on_the_first_screen(visit: Any) -> None:
    page = visit().page
    assert page.locator("h1").bounding_box()["y"] < 200
    assert page.locator(".strip").bounding_box()["y"] < 300
    assert page.locator(".kill").bounding_box()["y"] < LAPTOP[1]


def test_prints(visit: Any) -> None:
    page = visit(scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".kill tbody tr").count() >= len(FAULTS)
    assert len(page.pdf(format="A4")) > 50_000
