"""Evidence as a page for people: one self-contained HTML file per suite, and an index for several."""

from __future__ import annotations

from ucsearch.lab.suites.report.write import write_reports

__all__ = ["write_reports"]
