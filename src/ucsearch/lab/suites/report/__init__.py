"""Pages of evidence: one HTML file per suite, and an index."""

from __future__ import annotations

from ucsearch.lab.suites.report.pages import write_reports

__all__ = ["write_reports"]
