"""Pictures for notebooks and files: inline SVG with its style sheet, nothing fetched from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ucsearch.report.style import CSS

__all__ = ["Picture"]

_PAGE = """{% extends "base" %}{% block body %}
<div class="figures">{% for figure in figures %}{{ figure|safe }}{% endfor %}</div>{% endblock %}"""


@dataclass(frozen=True)
class Picture:
    """Figures with a title. Notebooks show it; `save` writes a page.

    >>> decision.plot().save("decision.html")  # doctest: +SKIP
    """

    title: str
    figures: tuple[str, ...]  # SVG, made of escaped text

    def _repr_html_(self) -> str:
        # In a frame of its own, so that the style sheet is not the notebook's.
        from html import escape

        page = f"<style>{CSS}</style><div class='figures'>{''.join(self.figures)}</div>"
        return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:420px;border:0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the picture as a page of HTML. Raises OSError where it cannot be written."""
        from ucsearch.report.page import render_page

        text = render_page(_PAGE, title=self.title, footer="Made by ucsearch.", figures=self.figures)
        Path(path).write_text(text, encoding="utf-8")
