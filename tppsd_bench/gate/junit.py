"""A gate as JUnit XML, which every continuous integration reads: a test case a check."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tppsd_bench.gate.base import LEVELS, Check, GateResult
from tppsd_bench.results import Outcome

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(result: GateResult) -> str:
    """A test suite a level: FAIL is a failure, what was not measured an error, inconclusive and advisory checks are skipped."""
    root = ElementTree.Element("testsuites", name="tppsd_bench gate")
    for level in LEVELS:
        checks = [c for c in result.checks if c.level == level]
        if checks:
            root.append(_suite(level, checks))
    if len(root) == 0:
        root.append(_suite("gate", [Check("gate", "gate", Outcome.INVALID, result.sentence)]))
    for name, of in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        root.set(name, str(len(list(root.iter(of or "testcase")))))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(level: str, checks: list[Check]) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=level)
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=f"gate.{level.replace(' ', '.')}", name=check.cell)
        said = _NOT_XML.sub("?", check.sentence)
        tag = _tag(check)
        if tag:
            told = ElementTree.SubElement(case, tag, message=said)
            told.text = said
            if tag != "skipped":
                told.set("type", check.word)
        else:
            ElementTree.SubElement(case, "system-out").text = said
    for name, of in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(list(suite.iter(of)))))
    return suite


def _tag(check: Check) -> str:
    if check.outcome is Outcome.PASS:
        return ""
    if check.advisory or check.outcome is Outcome.INCONCLUSIVE:
        return "skipped"
    return "failure" if check.outcome is Outcome.FAIL else "error"
