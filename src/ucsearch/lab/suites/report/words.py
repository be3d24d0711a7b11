"""Names of what evidence speaks of, as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ucsearch.records.canonical import canonical
from ucsearch.report.text import is_number, number

__all__ = [
    "CLASSES",
    "embedded",
    "key_figures",
    "metric",
    "policy",
    "sentence",
]


CLASSES = {
    "certified": ("Certified", "Every row of the promotion gate holds on a test split that was opened once."),
    "boundary": ("Boundary", "Reported as found; it supports no claim of superiority."),
    "no-go": ("No-go", "The audit on validation stopped this route; its test split stayed closed."),
}
"""Claim classes: how each is written and what it means."""

_POLICIES = {
    "uc": "UC-Search",
    "beam": "Beam (λ = 0)",
    "cem": "CEM",
    "cql": "CQL",
    "delay-greedy": "Delay-aware greedy",
    "dp": "Exact DP",
    "dqn": "DQN",
    "exact": "Exact DP",
    "fqi": "FQI",
    "mcts": "UC-MCTS",
    "mppi": "MPPI",
    "ppo": "PPO",
    "ss": "(s,S)",
    "uc-beam": "UC-Beam",
    "uc-mcts": "UC-MCTS",
    "uc-pareto": "UC-Pareto beam",
}
_METRICS = {
    "bounds": "bounds above zero",
    "certificate": "certificate rate",
    "checks": "checks that hold",
    "cvar20": "CVaR20",
    "eps_a": "ε_a",
    "eps_r": "ε_r",
    "eps_u": "ε_u",
    "lower_bound": "lower bound of the mean delta",
    "passed": "certificate rate",
    "positive": "positive windows",
    "positive_candidate": "any positive candidate",
    "risk": "selected λ",
    "risk_active": "risk-active rate",
    "risk_active_family": "risk-active rate of the family",
    "risk_active_weakest": "risk-active rate, weakest family",
    "selected_risk": "λ selected on validation",
    "selection_eligible": "selected candidate was eligible on validation",
}
_PARTS = {"bounds": "bounds_positive", "checks": "checks_passed"}  # whole: part
_RATES = ("certificate", "risk_active", "risk_active_weakest", "share")
_KEY_ORDER = ("risk", *_RATES, "violations", "bounds", "smallest_lower_bound", "positive", "series", "windows")
_WHOLES = {part: whole for whole, part in _PARTS.items()}
# Tags, comments and entities cannot begin without these; the line separators end a line in old JavaScript.
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def embedded(value: Any) -> str:
    """Canonical JSON for a script element: equal when parsed, but without any character that could end it."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", canonical(value).decode())


def policy(name: str) -> str:
    """How a policy is called in figures and tables."""
    return _POLICIES.get(name) or name[:1].upper() + name[1:].replace("_", " ")


def metric(name: str) -> str:
    """A metric's name in running text."""
    return _METRICS.get(name) or name.replace("_", " ")


def sentence(name: str) -> str:
    """A key such as `risk_active_family` as the beginning of a sentence."""
    words = metric(name)
    return words[:1].upper() + words[1:]


def key_figures(key: Mapping[str, Any]) -> dict[str, str]:
    """A verdict's key figures: counts and their totals as one figure each."""
    out = {}
    # The file's order is the alphabet's.
    for name in sorted(key, key=lambda n: (_KEY_ORDER.index(n) if n in _KEY_ORDER else len(_KEY_ORDER), n)):
        part, whole = _PARTS.get(name, name), _WHOLES.get(name)
        if whole is not None and whole in key:
            continue
        text = number(key[name], 4 if name in _RATES and is_number(key[name]) else None)
        out[sentence(name)] = f"{number(key[part])} of {text}" if part != name and part in key else text
    return out
