"""Text for people: numbers, columns, harmless HTML, and axes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ucsearch.report.svg import Scale, linear
from ucsearch.report.text import column_texts, esc, number, short, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (True, "yes"), (0, "0"), (2688, "2,688"), (12288.0, "12,288"), (0.95, "0.95"),
        (0.964217, "0.9642"), (-1234.567, "−1,235"), (-0.00123456, "−0.001235"), (1e-9, "1×10⁻⁹"),
        (-2.5e-7, "−2.5×10⁻⁷"),
        (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "not a number"), ("text", "text"), (3e17, "3×10¹⁷"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(value: Any, text: str) -> None:
    assert number(value) == text


def test_signs_and_columns() -> None:
    assert [signed(v) for v in (0.0712, -0.0001, 0.0001, -0.5, None)] == ["+0.071", "0.000", "0.000", "−0.500", "–"]
    assert column_texts([1.0, 0.5, None], "rate_family_mean") == ["1.0000", "0.5000", "–"]
    assert column_texts([1234.5678, 0.5, -2.0]) == ["1,235", "0", "−2"]
    assert column_texts([3.25, 12.5]) == ["3.25", "12.50"]
    assert column_texts([2, 3.0]) == ["2", "3"]
    assert short("abcdefghij", 5) == "ab…ij"


def test_escaped_text_is_visible_and_safe_in_attributes() -> None:
    assert esc("a<b>\"c'&") == "a&lt;b&gt;&quot;c&#x27;&amp;"
    assert esc("x\x00y\u202ez\x1b") == "x�y�z�"


def test_scales_keep_order_and_their_ticks_inside() -> None:
    for scale, values in (
        (linear([1.0, 2.0, 3.0], 10.0, 350.0), [1.0, 2.0, 3.0]),
        (Scale("log", 0.01, 100.0, 10.0, 350.0), [0.01, 1.0, 100.0]),
    ):
        units = [scale(v) for v in values]
        assert units == sorted(set(units))
        assert 10.0 <= units[0] < units[-1] <= 350.0
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 7
        assert all(scale.low <= v <= scale.high for v, _ in ticks)
    assert [t for _, t in Scale("linear", 0.0, 1.0, 0.0, 100.0).ticks()] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert linear([5.0], 0.0, 1.0).ticks() != []
    edge = Scale("log", 1.0, 10.0, 20.0, 80.0)
    assert (edge(0.0), edge(1e9)) == (20.0, 80.0)  # values outside land on the edge
