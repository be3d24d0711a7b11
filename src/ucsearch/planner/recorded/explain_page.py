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
<pre><code>{{ text }}</code></pre>
{% endblock %}"""


def write_explain_page(told: Told, path: str | Path) -> None:
    """The page, whole or not at all."""
    figures = []
    if told.orders:
        title = f"{told.action.capitalize()} by step" + ("" if told.released else ", not in force")
        sizes = [sum(x) if isinstance(x, tuple) else x for x in told.orders]
        figures.append(bars("plan", title, sizes, told.action_unit))
    if told.tracks is not None:
        figures.append(fan("state", _title(told.field), _rows(told.tracks[:, 1:], told.weights), unit=told.units))
    if told.members.shape[1]:
        rows = _rows(told.members[:, :, 0], told.weights)
        figures.append(fan("forecast", "Forecast", rows, unit=told.outcome_unit))
    text = render_page(
        _PAGE, title=told.title, footer="Made by ucsearch explain. Nothing on this page is fetched from elsewhere.",
        figures=figures, text=told.text,
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _title(field: str) -> str:
    return f"{field[:1].upper()}{field[1:]} along the plan"


def _rows(paths: NDArray[np.float64], weights: NDArray[np.float64]) -> list[tuple[float, ...]]:
    """Quantiles by step of paths (J, H)."""
    return [quantiles(step.tolist(), weights.tolist()) for step in paths.T]
