"""The sentence of a recorded decision, made again from the figures that the verifier derives.

A record's own sentence is words: nobody verifies it, and a forged one could say anything. What is told first is
therefore put together here, by the same words, from outcome, claim, rivals and gate rows, each of which the verifier
checks, and from the rules themselves where the task is at hand.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

from ucsearch.answers import as_allowed, guarded
from ucsearch.certificate.record import Certificate, Closed
from ucsearch.dispatch.gate import IN_TIME, Reason
from ucsearch.dispatch.words import explain_fallback, explain_release
from ucsearch.errors import UCSearchError
from ucsearch.figures import figure, offered_words
from ucsearch.policies import MODES
from ucsearch.records.canonical import decode_number
from ucsearch.records.inputs import recorded_inputs
from ucsearch.task import Task

__all__ = ["plain", "retell"]

# What only the record's own sentence says.
_UNSAID = {
    Reason.TASK_ERROR: "how, only the record's own words say",
    Reason.INVALID_TRACE: "why, only the record's own words say",
}


def retell(record: dict[str, Any], task: Task | None, money: str = "") -> list[str]:
    """The sentence, and, where the record's own is another, that one as what it is. Records know no currency, so
    `money` comes from the settings."""
    text = _sentence(record, task, "")
    shown = _sentence(record, task, money) if money else text
    if record["outcome"]["sentence"] == text:
        return [shown]
    return [shown, "", f"The record's own words, which nobody verifies: {plain(record['outcome']['sentence'])}"]


def _sentence(record: dict[str, Any], task: Task | None, money: str) -> str:
    outcome = record["outcome"]
    label = _label(record, outcome["action"])
    if outcome["outcome"] == "RELEASED":
        return explain_release(cast(Certificate, _Recorded(record, task)), label, outcome["pass_kind"], money)
    cause = Reason(outcome["cause"])
    certificate = None if record["kind"] == "refusal" else cast(Certificate, _Recorded(record, task))
    sent = None if outcome["outcome"] == "HOLD" else label
    unsaid = _UNSAID.get(cause)
    if record["gate"].get("last_look"):  # nobody can derive that again, so the words are marked as the record's
        unsaid = f"as the record says, {plain(record['gate']['last_look'])}"
    return explain_fallback(cause, certificate, unsaid or _detail(record), sent, money)


class _Recorded:
    """A certificate as far as words need it, read from a record."""

    def __init__(self, record: dict[str, Any], task: Task | None) -> None:
        claim = record["claim"]
        self._claim = claim
        self.rivals = [SimpleNamespace(**{k: _number(v) for k, v in r.items()}) for r in record["rivals"]]
        self.closed = _closed(claim)
        allowed = _allowed(record, task)
        settings = record["settings"]
        mode = next((name for name, code in MODES.items() if code == settings["mode"]), "")
        self.plan = SimpleNamespace(
            offered=_offered(record, task), settings=SimpleNamespace(**settings), actions=allowed,
            blocked=sum(one != 1.0 for one in allowed),
            policy=SimpleNamespace(mode=mode),
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._claim:
            raise AttributeError(name)
        return _number(self._claim[name])


def _closed(claim: dict[str, Any]) -> Closed | None:
    if "law" not in claim:
        return None
    law = claim["law"] | {"variance_ratio": {k: _number(v) for k, v in claim["law"]["variance_ratio"].items()}}
    return Closed(law, *(_number(claim[name]) for name in ("states", "transitions", "open_value", "flexibility")))


def _allowed(record: dict[str, Any], task: Task | None) -> list[float]:
    """Which actions the rules allow now, NaN for places of the grid that hold none; nothing without the rules."""
    if task is None:
        return []
    try:
        inputs = recorded_inputs(record, task)
        return [
            math.nan if a is None else float(as_allowed(guarded(task.feasible_at, inputs.state, a, 0, inputs.params)))
            for a in inputs.actions
        ]
    except UCSearchError:
        return []
    except Exception:  # a rule that fails now says nothing
        return []


def _offered(record: dict[str, Any], task: Task | None) -> str:
    """The set that was offered, in the task's words where the task is at hand."""
    actions = [math.nan if a is None else float(decode_number(a)) for a in record["task"]["actions"]]
    if task is None:
        return offered_words(actions)
    try:
        pack = float(getattr(recorded_inputs(record, task).params, task.pack, 0.0)) if task.pack else 0.0
    except UCSearchError:
        pack = 0.0
    return task.offered(actions, pack)


def _detail(record: dict[str, Any]) -> str:
    rows = [row for row in record["gate"]["rows"] if not row["pass"]]
    if any(row["name"] == IN_TIME for row in rows):
        rows = [row for row in rows if row["name"] == "elapsed_s"]
    failed = next(iter(rows), None)
    if failed is None:
        return ""
    return f"{failed['name']} {figure(_number(failed['left']))}, limit {figure(_number(failed['right']))}"


def _label(record: dict[str, Any], action: Any) -> str:
    actions = record.get("task", {}).get("actions", [])
    if action is None or action not in actions:
        return "?" if action is None else figure(decode_number(action))
    return plain(record["task"]["labels"][actions.index(action)])


def _number(value: Any) -> Any:
    """Null is NaN; what is no number stays as it is."""
    if value is None:
        return math.nan
    if isinstance(value, str) and value not in ("inf", "-inf"):
        return plain(value)
    return value if isinstance(value, bool | list | dict) else decode_number(value)


def plain(text: str) -> str:
    """Without characters that would steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
