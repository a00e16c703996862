"""The report: one self-contained HTML file from a run folder, without torch."""

from tppsd_bench.report.build import build_report

__all__ = ["build_report"]
