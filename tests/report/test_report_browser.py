"""The report in a real browser: themes, widths, keyboard, print, accessibility."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from make_run import make_run

from tppsd_bench.report import build_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (the extra 'test' has it)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the report was not looked at in a browser"),
]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LAPTOP, PHONE = (1280, 800), (390, 844)
ONE_OF_EACH_KIND = (
    "law-attnhp_self_correcting-stress",
    "horizon-thp_poisson-shipped",
    "speed-thp_hawkes",
    "fit-sahp_earthquake",
    "screen-sahp_hawkes2",
    "law-thp_taxi-stress",
)
OPEN_ONE_OF_EACH_KIND = f"""{[f"cell-{name}" for name in ONE_OF_EACH_KIND]}.map(i => document.getElementById(i)).forEach(
    cell => [cell, ...cell.querySelectorAll('details')].forEach(d => {{ d.open = true }}))"""
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true })"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_report(make_run(tmp_path_factory.mktemp("browser") / "demo"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


class Visit:
    """A page with all that it complained about and asked for."""

    def __init__(self, browser: Any, report: Path, size: tuple[int, int], scheme: str, javascript: bool = True) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=javascript
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.resolve().as_uri())


@pytest.fixture
def visit(browser: Any, report: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def go(size: tuple[int, int] = LAPTOP, scheme: str = "light", javascript: bool = True) -> Visit:
        opened.append(Visit(browser, report, size, scheme, javascript))
        return opened[-1]

    yield go
    for one in opened:
        one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_quiet_alone_and_within_the_page(visit: Any, size: tuple[int, int], scheme: str) -> None:
    seen = visit(size, scheme)
    for action in ("0", OPEN_ALL):
        seen.page.evaluate(action)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert seen.complaints == []
    assert [r for r in seen.requests if not r.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize(("size", "scheme"), [(LAPTOP, "light"), (LAPTOP, "dark"), (PHONE, "light")])
def test_axe_finds_nothing_serious(visit: Any, size: tuple[int, int], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    seen = visit(size, scheme)
    seen.page.evaluate(OPEN_ONE_OF_EACH_KIND)
    found = axe.Axe().run(seen.page).response["violations"]
    grave = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]
    assert grave == []


@pytest.mark.parametrize("font", ["", "DejaVu Sans"])
def test_every_pair_is_answered_on_the_first_laptop_screen(visit: Any, font: str) -> None:
    """In the page's own fonts, whatever is installed, and in one whose letters are a sixth wider than Arial's (where there is one)."""
    page = visit().page
    if font:
        page.add_style_tag(content=f":root {{ --sans: '{font}'; --serif: '{font}' }}")
    last = page.locator(".pair").last.bounding_box()
    assert last["y"] + last["height"] <= LAPTOP[1]


def test_no_text_of_a_pair_lies_on_another(visit: Any) -> None:
    overlap = """() => [...document.querySelectorAll('.pair')].some(pair => {
        const boxes = [...pair.querySelectorAll('dt, dd, .says, .sure p, .fast p, h3')].filter(e => e.offsetParent).map(e => {
            const range = document.createRange(); range.selectNodeContents(e); return range.getBoundingClientRect(); });
        return boxes.some((a, i) => boxes.slice(i + 1).some(b =>
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3));
    })"""
    for size in (LAPTOP, (900, 800), PHONE):
        assert not visit(size).page.evaluate(overlap)


def test_dark_is_dark_and_the_button_turns_it(visit: Any) -> None:
    brightness = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    page = visit(scheme="dark").page
    assert max(page.evaluate(brightness)) < 60
    page.get_by_role("button", name="Light").click()
    assert min(page.evaluate(brightness)) > 200


def test_keyboard_reaches_the_verdicts_and_opens_a_cell(visit: Any) -> None:
    page = visit().page
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the verdicts"
    assert skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    summary = page.locator("details.cell > summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.cell").first.evaluate("d => d.open")
    assert page.locator("details.cell figure svg").first.is_visible()


def test_a_link_to_a_cell_opens_it(visit: Any) -> None:
    page = visit().page
    page.locator("a[href^='#cell-']").first.click()
    assert page.locator("details.cell[open]").count() == 1


def test_reads_without_javascript(visit: Any) -> None:
    page = visit(javascript=False).page
    assert page.locator(".pair").count() == 6
    page.locator("details.cell > summary").first.click()
    assert page.locator("details.cell figure svg").first.is_visible()


def test_print_shows_every_cell_on_white(visit: Any) -> None:
    page = visit(scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    shown = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()")
    assert shown == "#fff"
    assert page.locator("details.cell .verdicts").last.evaluate("e => e.getBoundingClientRect().height") > 0
    assert len(page.pdf(format="A4")) > 100_000
