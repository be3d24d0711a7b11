"""What a reader should conclude from a suite, in a sentence that its own figures decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.value import TIMED

__all__ = ["conclusion", "short_conclusion", "standing", "standings"]

Predicate = Mapping[str, Any]

BETTER, EQUAL, WORSE, OPEN = "better", "as good", "worse", "open"
"""Better: every family's lower bound is above 0. As good: above minus the margin. Worse: some upper bound is below 0.
Open: nothing of it is shown."""
MARGIN = 0.01  # of "as good", in scale-free deltas
BEATS_SAMPLERS = "Exact search beats sampling planners at equal nodes"


def standing(deltas: Sequence[Mapping[str, Any]], margin: float) -> str:
    """Where the judged policy stands against one opponent, over all families."""
    lows, highs = [d["lower"] for d in deltas], [d["upper"] for d in deltas]
    if deltas and all(low is not None and low > 0.0 for low in lows):
        return BETTER
    if any(high is not None and high < 0.0 for high in highs):
        return WORSE
    if deltas and all(low is not None and low > -margin for low in lows):
        return EQUAL
    return OPEN


def conclusion(p: Predicate) -> str:
    """One or two sentences."""
    if p["value"] is not None:
        certified = p["verdict"]["class"] == "certified"
        return f"{BEATS_SAMPLERS}. {_of_value(p)}" if certified else _of_value(p)
    if p["kind"] == "walkforward":
        return _of_gate(p)
    checks = p["checks"]
    if checks:
        held = sum(row["pass"] is True for row in checks)
        return f"{held} of {len(checks)} targets hold; it asks for no promotion."
    return "A description; it asks for no promotion and claims nothing."


def short_conclusion(p: Predicate) -> str:
    """The conclusion in one line: opponents of the value gate are counted, not named."""
    if p["value"] is None or p["value"]["gate"] == GATE:
        return conclusion(p)
    places = [
        standing([d for d in p["value"]["deltas"] if d["opponent"] == opponent], MARGIN) for opponent in _opponents(p)
    ]
    words = {BETTER: "better than", EQUAL: "as good as", WORSE: "behind", OPEN: "undecided against"}
    text = ", ".join(f"{words[kind]} {places.count(kind)}" for kind in words if kind in places)
    passed = p["verdict"]["value"]["class"] == "passed"
    head = f"{BEATS_SAMPLERS}. " if p["verdict"]["class"] == "certified" else ""
    return f"{head}{'Worth using' if passed else 'Not shown'}: {text} of {len(places)} rivals."


def standings(p: Predicate) -> dict[str, str]:
    """The opponents of the value gate by how the judged policy stands against them, each as words; none left out."""
    value = p["value"]
    names: dict[str, list[str]] = {BETTER: [], EQUAL: [], WORSE: [], OPEN: []}
    for opponent in _opponents(p):
        place = standing([d for d in value["deltas"] if d["opponent"] == opponent], MARGIN)
        names[place].append(opponent.removesuffix("-tuned").replace("-time", " at equal time"))
    return {kind: _joined(place) if place else "" for kind, place in names.items()}


def _opponents(p: Predicate) -> list[str]:
    return list(dict.fromkeys(d["opponent"] for d in p["value"]["deltas"]))


def _of_primary(p: Predicate) -> str:
    """The answer of value gate 2, with money."""
    value, verdict = p["value"], p["verdict"]["value"]["class"]
    rival = next((d for d in value["deltas"] if d["opponent"] == value["rivals"][0]), None)
    against = " and ".join(value["rivals"])
    if rival is None:
        return f"Not sized: the test stays closed (power {value['power']:.2f} against {against})."
    if rival["saved"] is None:
        return f"Not to be told from {against}: a figure is missing."
    low, high = (math.nan if rival[name] is None else rival[name] for name in ("saved_lower", "saved_upper"))
    money = f"{rival['saved']:.1f} % of cost saved [{low:.1f}, {high:.1f}]"
    head = {"shown": f"Shown: {value['endpoint']}", "behind": "Behind"}.get(verdict, verdict.capitalize())
    return f"{head} against {against}: {money}."


def _of_value(p: Predicate) -> str:
    if p["value"]["gate"] == GATE:
        return _of_primary(p)
    names = standings(p)
    sentences = []
    for kind, words in (
        (BETTER, "cheaper than {}" if _is_cost(p) else "earns more than {}"),
        (EQUAL, "as good as {} to within 1 %"),
        (WORSE, "behind {} in some family"),
        (OPEN, "undecided against {}"),
    ):
        if names[kind]:
            sentences.append(words.format(names[kind]))
    passed = p["verdict"]["value"]["class"] == "passed"
    text = "; ".join(sentences)
    return f"{'Worth using here' if passed else 'Not shown to be worth using here'}: {text}."


def _of_gate(p: Predicate) -> str:
    key = p["verdict"]["key"]
    if p["verdict"]["class"] == "certified":
        head = BEATS_SAMPLERS
    elif p["verdict"]["class"] == "no-go":
        head = "Stopped on validation"
    else:
        head = f"Not promoted ({key.get('bounds_positive', 0)} of {key.get('bounds', 0)} bounds above 0)"
    return f"{head}; practitioners were not asked."


def _is_cost(p: Predicate) -> bool:
    return (p["protocol"] or {}).get("form") == "cost"


def _joined(names: Sequence[str]) -> str:
    timed = [name for name in names if name.endswith(" at equal time")]
    if len(timed) == len(TIMED):
        names = [*(name for name in names if name not in timed), "samplers at equal time"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
