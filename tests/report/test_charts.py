"""Fans, bars, evidence curves and histograms: pieces of SVG that stay within their frame and name their values."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from ucsearch.report.charts import LEVELS, bars, evidence_curve, fan, quantiles, rank_histogram, spark


def places(svg: str) -> list[float]:
    """All coordinates of paths, texts, circles and rectangles."""
    tree = ElementTree.fromstring(svg)
    out = []
    for node in tree.iter():
        out += [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", node.get("d", ""))]
        out += [float(node.get(name, "0")) for name in ("x", "y", "cx", "cy")]
    return out


def test_quantiles_are_members_and_follow_the_weights() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=101).tolist()
    found = quantiles(values, [1.0] * 101)
    assert set(found) <= set(values)
    assert list(found) == sorted(found)
    expected = np.quantile(values, LEVELS, method="inverted_cdf")
    assert found == pytest.approx(expected.tolist())
    # All the weight on one member: it is every quantile.
    assert quantiles([3.0, 1.0, 2.0], [0.0, 1.0, 0.0]) == (1.0,) * len(LEVELS)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("steps", [1, 2, 60])
def test_a_fan_stays_in_its_frame(scale: float, steps: int) -> None:
    rows = [tuple(scale * (h + q) for q in range(5)) for h in range(steps)]
    svg = fan("f", "<b>", rows, {1: 100.0 * scale, steps + 5: 0.0}, "<i>")
    assert all(-1.0 <= x <= 361.0 for x in places(svg))
    assert svg.count("<circle") == (2 if steps == 1 else 1)  # what lies beyond the forecast is not drawn
    assert "<b>" not in svg
    assert "<i>" not in svg
    assert "&lt;b&gt;" in svg


@pytest.mark.parametrize("values", [[0.0], [5.0, -3.0], [1e12, 0.0], [-1e-9]])
def test_bars_go_both_ways(values: list[float]) -> None:
    svg = bars("b", "plan", values, "MW")
    assert all(-1.0 <= x <= 361.0 for x in places(svg))
    heights = [float(x) for x in re.findall(r'height="([\d.]+)" class', svg)]
    assert len(heights) == len(values)
    assert all(h > 0.0 for h in heights)


def test_the_limit_is_drawn_where_the_curve_crosses_it() -> None:
    svg = evidence_curve("e", "t", [(1.0, 0.0), (2.0, 1e3), (3.0, 1e6)], 1e5, ("a", "b"))
    assert "limit 100,000" in svg
    assert "Evidence now 1e+06, at most 1e+06, limit 100000" in svg
    assert all(-1.0 <= x <= 361.0 for x in places(svg))
    # Without an end, and without outcomes, there is still a picture.
    for points in ([], [(1.0, 1e300)], [(1.0, math.inf)]):
        assert all(-1.0 <= x <= 361.0 for x in places(evidence_curve("e", "t", points, 5e5, ("", ""))))


def test_a_histogram_shows_shares() -> None:
    svg = rank_histogram("h", "t", [0, 10, 30, 0])
    assert svg.count("<rect") == 4
    assert "0 %, 25 %, 75 %, 0 %" in svg
    assert ElementTree.fromstring(rank_histogram("h", "t", [0, 0])) is not None


def test_a_spark_has_a_bar_for_each_value_and_says_them() -> None:
    text = spark([40.0, 0.0, -8.0], "now 40, then 0, -8")
    assert text.count("<rect") == 3
    assert text.count('class="fill-main"') == 1
    assert 'aria-label="now 40, then 0, -8"' in text
    assert spark([0.0, 0.0], "<nothing>").count("&lt;nothing&gt;") == 2
