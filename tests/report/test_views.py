"""What a notebook shows of a forecast and of an allocation: short, right, and harmless whatever the names are."""

from __future__ import annotations

import numpy as np
import pytest

import ucsearch as uc
from tests.planner.pages_kit import Elements
from ucsearch.report.small import SHOWN
from ucsearch.tasks import LeadTimeInventory

HOSTILE = '<script>alert("1")</script>'


def rows_of(html: str) -> list[list[str]]:
    """The cells of every row of the body."""
    body = html.split("<tbody>")[-1]
    return [[c.split("</td>")[0] for c in r.split("<td>")[1:]] for r in body.split("<tr>")[1:]]


def test_a_forecast_by_step_with_its_quantiles() -> None:
    members = np.arange(1.0, 21.0)[:, None] * np.array([[1.0, 10.0]])
    html = uc.Trace.from_members(members, model=HOSTILE)._repr_html_()
    assert rows_of(html) == [["1", "10.5", "1", "10", "19"], ["2", "105", "10", "100", "190"]]
    seen = Elements(html)
    assert not seen.scripts
    assert any(HOSTILE in word for word in seen.words)


def test_weights_count() -> None:
    trace = uc.Trace.from_members([[0.0], [1.0]], weights=[0.96, 0.04])
    assert rows_of(trace._repr_html_()) == [["1", "0.04", "0", "0", "0"]]


def test_several_fields_are_told_apart() -> None:
    trace = uc.Trace.from_members(np.array([[[1.0, 5.0]], [[3.0, 7.0]]]), fields=2)
    assert [r[:3] for r in rows_of(trace._repr_html_())] == [["1", "1", "2"], ["1", "2", "6"]]


@pytest.mark.parametrize("windows", [2, SHOWN, SHOWN + 1, 5000])
def test_a_panel_is_short(windows: int) -> None:
    html = uc.Trace.from_members(np.ones((windows, 3, 12)))._repr_html_()
    assert html.count("<tr>") <= SHOWN + 2
    assert rows_of(html)[0] == ["0", *["1"] * 8, "..."]
    assert (f"and {windows - SHOWN:,} more" in html) == (windows > SHOWN)
    assert len(html) < 6000


def test_action_scores() -> None:
    html = uc.Trace.from_scores([[1.0, 2.0], [3.0, 4.0]], [[0.1, 0.2], [0.3, 0.4]])._repr_html_()
    assert rows_of(html) == [["1", "1 ± 0.1", "2 ± 0.2"], ["2", "3 ± 0.3", "4 ± 0.4"]]


def shared(limit: float, name: str = "the truck", least: float = 0.0) -> uc.Allocation:
    shop = LeadTimeInventory(lead_time=0, order_sizes=(least, 5.0, 10.0), holding=1.0, shortage=9.0)
    states = [shop.state(0.0)] * 3
    policy = uc.Exact(depth=1, mode="members", every_action=True)
    panel = uc.decide_panel(shop.task(), states, np.full((3, 2, 1), 10.0), policy, run=uc.Run(engine="python"))
    return uc.allocate(panel, uc.Shared(name=name, limit=limit, use="units"), series=["a", HOSTILE, "c"], gap_share=1.0)


def test_an_allocation_names_limits_and_losers() -> None:
    found = shared(20.0, name=f"truck {HOSTILE}")
    html = found._repr_html_()
    seen = Elements(html)
    assert not seen.scripts
    assert HOSTILE in seen.words
    rows = rows_of(html)
    assert len(rows) == 3
    lost = [float(r[4]) for r in rows]
    assert lost == sorted(lost, reverse=True)
    assert sum(s.uses[0] for s in found.shares) <= 20.0
    assert "truck &lt;script&gt;" in html
    assert "20</td>" in html


def test_an_allocation_that_nothing_fits() -> None:
    html = shared(10.0, least=4.0)._repr_html_()
    assert "<tbody>" in html  # what leaves instead, and why
    assert "RELEASED" not in html


def test_what_a_stranger_prints_is_short_and_says_what_it_is() -> None:
    """Every record that a session shows by itself fits on a line or two; decisions and panels have a frame."""
    config = LeadTimeInventory(lead_time=1)
    members = np.random.default_rng(0).poisson(5.0, (2, 4, 5)).astype(float)
    panel = uc.decide_panel(
        config.task(), [config.state(3.0), config.state(9.0)], uc.Trace.from_members(members), uc.Exact(depth=3),
        gate=uc.Gate(), run=uc.Run(engine="python"),
    )  # fmt: skip
    one = panel[0]
    assert one.certificate is not None
    shown = [panel, one, one.certificate, panel.certified, panel.certified.plan, one.certificate.plan, config.task()]
    for record in shown:
        assert repr(record).startswith(f"{type(record).__name__}(")
        assert len(repr(record)) < 200, repr(record)
    assert "passed" in repr(one.certificate)
    assert repr(one.certificate.plan.task) == repr(config.task())
    assert "0x" not in repr(config.task())  # the same in every process
    alone, all_of_it = one.frame("pandas"), panel.frame("pandas")
    assert list(alone.columns) == list(all_of_it.columns)
    assert alone.to_dict("records")[0] == all_of_it.to_dict("records")[0]
    assert set(uc.__all__) <= set(dir(uc))
    assert set(uc.PACKAGES) <= set(dir(uc))
