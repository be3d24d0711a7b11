"""A page of one recorded decision: the words of `ucsearch explain`, its plan and its forecast."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.planner.recorded.explain import Told
from ucsearch.records.files import whole_file
from ucsearch.report.charts import bars, fan, quantiles
from ucsearch.report.page import render_page

__all__ = ["write_explain_page"]

_PAGE = """{% extends "base" %}
{% block body %}
<div class="figures">{% for figure in figures %}{{ figure|safe }}{% endfor %}</div>
{% for lines, table in blocks %}{% for line in lines %}<p>{{ line }}</p>
{% endfor %}{% if table %}<pre><code>{{ table }}</code></pre>
{% endif %}{% endfor %}{% endblock %}"""


def write_explain_page(told: Told, path: str | Path) -> None:
    """The page, whole or not at all."""
    figures = []
    if told.orders and told.judged:
        title = f"{told.action.capitalize()} by step" + ("" if told.released else ", not in force")
        sizes = [sum(x) if isinstance(x, tuple) else x for x in told.orders[: told.judged]]
        figures.append(bars("plan", title, sizes, told.action_unit))
    if told.tracks is not None and told.judged:
        rows = _rows(told.tracks[:, 1 : told.judged + 1], told.weights)
        figures.append(fan("state", _title(told.field), rows, unit=told.units))
    if told.members.shape[1]:
        rows = _rows(told.members[:, :, 0], told.weights)
        figures.append(fan("forecast", "Forecast", rows, unit=told.outcome_unit))
    text = render_page(
        _PAGE, title=told.title, footer="Made by ucsearch explain. Nothing on this page is fetched from elsewhere.",
        figures=figures, blocks=_blocks(told.text),
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _blocks(text: str) -> list[tuple[list[str], str]]:
    """Sentences, which a page wraps, and the table below them, whose columns stand."""
    blocks = []
    for block in text.split("\n\n"):
        lines = block.split("\n")
        first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
        blocks.append((lines[:first], "\n".join(lines[first:])))
    return blocks


def _title(field: str) -> str:
    return f"{field[:1].upper()}{field[1:]} along the plan"


def _rows(paths: NDArray[np.float64], weights: NDArray[np.float64]) -> list[tuple[float, ...]]:
    """Quantiles by step of paths (J, H)."""
    return [quantiles(step.tolist(), weights.tolist()) for step in paths.T]
