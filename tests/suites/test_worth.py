"""README and docs/worth.md print the figures of the committed evidence, and no others for these suites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").replace("**", "").split())
WORTH = " ".join((ROOT / "docs" / "worth.md").read_text(encoding="utf-8").replace("**", "").split())


def value_of(suite: str) -> dict[str, Any]:
    text = (ROOT / "evidence" / suite / "manifest.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)["predicate"]["value"]
    return value


def money(delta: dict[str, Any], words: str = "") -> str:
    """Per cent of cost saved with its interval; whole per cents from ten on."""
    places = 0 if delta["saved"] >= 10.0 else 1
    ends = f"[{delta['saved_lower']:+.{places}f}, {delta['saved_upper']:+.{places}f}]"
    return f"{delta['saved']:.{places}f} %{words} {ends}"


def by_rival(suite: str) -> dict[str, dict[str, Any]]:
    return {delta["opponent"]: delta for delta in value_of(suite)["deltas"]}


def test_the_truck() -> None:
    value, rivals = value_of("truck200"), by_rival("truck200")
    assert value["verdict"] == "shown"
    strongest = rivals[value["rivals"][0]]
    assert f"saves {money(strongest, ' of cost')}" in README
    assert money(strongest) in WORTH
    assert f"power {value['power']:.2f} before the look" in WORTH
    for name in ("newsvendor by the pack", "base-stock, fair share"):
        assert money(rivals[name]) in README, name
    for name in (
        "newsvendor by the pack",
        "(s,S), filled by loss",
        "base-stock, fair share",
        "base-stock, in proportion",
    ):
        assert money(rivals[name]) in WORTH, name


def test_a_battery_at_known_prices() -> None:
    rival = by_rival("battery-fine")["lp-mean-tuned"]
    mean, low, high = (100.0 * rival[name] for name in ("mean", "lower", "upper"))
    room = "% of the room between doing nothing and hindsight"
    assert mean < 0.0
    assert f"ahead by {-mean:.1f} {room}" in README
    assert f"{mean:.1f} {room} [{low:.1f}, {high:.1f}]" in WORTH


def test_staffing_is_not_sized() -> None:
    value = value_of("staffing")
    assert value["verdict"] == "not sized"
    assert f"not sized (power {value['power']:.2f}; 0.80 is asked for)" in WORTH


def test_orders_in_lots() -> None:
    """Beside planning on a quantile. The page has the first look at (s,S), the folder the second, where it is worse."""
    found = [delta for delta in value_of("retail-lots")["deltas"] if delta["opponent"] == "quantile-plan-tuned"]
    mean = sum(delta["mean"] for delta in found) / len(found)
    low, high = min(delta["lower"] for delta in found), max(delta["upper"] for delta in found)
    assert f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" in WORTH
