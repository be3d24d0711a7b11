"""Pictures for notebooks and files: inline SVG with its style sheet, nothing fetched from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ucsearch.report.style import CSS, LIGHT_SVG
from ucsearch.report.svg import WIDTH

__all__ = ["Picture"]

_PAGE = """{% extends "base" %}{% block body %}
<div class="figures">{% for figure in figures %}{{ figure|safe }}{% endfor %}</div>{% endblock %}"""

_NO_NAMES = re.compile(r"<title id=[^>]*>.*?</title>|<desc id=[^>]*>.*?</desc>", re.S)  # those of a page's figure


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

    def _repr_svg_(self) -> str:
        """The figures side by side as one image in light colours, for viewers that show no frames."""
        parts, x, tall = [], 0.0, 0.0
        for one in self.figures:
            found = re.search(r'<svg viewBox="0 0 \S+ (\S+)"[^>]*>(.*)</svg>', one, re.S)
            title = re.search(r"<h4[^>]*>(.*?)</h4>", one, re.S)
            if found is None:
                continue
            head = "" if title is None else f'<text x="{x:g}" y="14" class="t">{title[1]}</text>'
            parts.append(f'{head}<g transform="translate({x:g} 24)">{_NO_NAMES.sub("", found[2])}</g>')
            x, tall = x + WIDTH + 24.0, max(tall, float(found[1]) + 24.0)
        wide = max(x - 24.0, 1.0)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {tall:g}" width="{wide:g}" '
            f'height="{tall:g}"><style>{LIGHT_SVG}</style><rect width="100%" height="100%" fill="#fff"/>'
            f"{''.join(parts)}</svg>"
        )

    def save(self, path: str | Path) -> None:
        """Write the picture as a page of HTML. Raises OSError where it cannot be written."""
        from ucsearch.report.page import render_page

        text = render_page(_PAGE, title=self.title, footer="Made by ucsearch.", figures=self.figures)
        Path(path).write_text(text, encoding="utf-8")
