"""Entries that are no decisions: overrides, refusals, outcomes, pauses, what monitors did."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ucsearch.verify.decision.inputs import rules_of
from ucsearch.verify.decision.problem import fallback_now, feasible_now
from ucsearch.verify.monitor import verify_watching
from ucsearch.verify.verdict import Invalid, Record, action_of, describe, expect, num, require


def verify_override(r: Record, target: Record, digest: str, task: Callable[[], Any]) -> str:
    """A person's replacement: of this decision, by somebody, for a reason, at a time, and allowed by the rules, or
    marked as forced. Returns what is to be said of it."""
    for name in ("who", "why"):
        require(f"override.{name}", r[name].strip() != "", r[name], "text")
    _dated("override.at", r["at"])
    _about("override", r, target, digest)
    if r["action"] is None:  # withdrawn: what was recorded counts again
        expect("override.label", (r["label"], r["off_grid"], "forced" in r), ("", False, False))
        return ""
    if "inputs" not in target:
        raise Invalid("override.overrides", target["id"], f"a {target['kind']} whose state was not kept")
    rules = task()
    state, params, actions = rules_of(target, rules)
    action, labels = r["action"], target["task"]["labels"]
    action, where = action_of(action), "override.action"
    low, high = rules.limits
    offered = [a for a in actions if a == a]
    is_alike = all(len(_parts(a)) == len(_parts(action)) for a in offered)
    try:
        require(where, is_alike, r["action"], "as many numbers as the actions offered have")
        within = action in actions or all(low <= x <= high for x in _parts(action))
        require(where, within, r["action"], f"an action from {low:g} to {high:g}")
        _allowed(where, rules, state, action, params)
        _of_the_unit(where, rules, target["inputs"]["state"], params, offered, action)
        broken = ""
    except Invalid as error:
        if "forced" not in r:
            raise
        broken = str(error)
    require("override.forced", "forced" not in r or broken != "", True, "no mark: it breaks no rule")
    expect("override.off_grid", r["off_grid"], action not in actions)
    expect("override.label", r["label"], "" if action not in actions else labels[actions.index(action)])
    return f"forced by a person: {broken}" if broken else ""


def _parts(action: Any) -> tuple[float, ...]:
    """The numbers of an action."""
    return action if isinstance(action, tuple) else (action,)


def _of_the_unit(where: str, task: Any, state: list[Any], params: Any, offered: list[Any], action: Any) -> None:
    """A person's numbers have the unit and about the size of what was offered and of the state."""
    if action in offered:
        return
    parts, sizes = [*_parts(action)], [x for a in offered for x in _parts(a)]
    numbers = [*sizes, *(num(x) for x in state)]
    pack = getattr(params, task.pack) if getattr(task, "pack", "") else 0.0
    if pack > 0 and _multiples(sizes, pack):
        require(where, _multiples(parts, pack), action, f"whole packs of {pack:g}")
    elif getattr(task, "counted", False) and _multiples(numbers, 1.0):
        require(where, _multiples(parts, 1.0), action, "whole units")
    largest = max((abs(x) for x in numbers if abs(x) < 1e18), default=0.0)
    most = max(map(abs, parts))
    require(where, largest == 0 or most <= 10 * largest, action, f"at most 10 times {largest:g}")


def _multiples(numbers: list[float], unit: float) -> bool:
    parts = [x / unit for x in numbers]
    return all(abs(x - round(x)) <= 1e-9 * max(1.0, abs(x)) for x in parts if math.isfinite(x))


def _allowed(where: str, task: Any, state: Any, action: Any, params: Any) -> None:
    try:
        feasible = action == action and feasible_now(task, state, action, params)
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Invalid(where, True, describe(error)) from None
    require(where, feasible, action, "an action that breaks the rules")


def _about(kind: str, r: Record, target: Record, digest: str) -> None:
    expect(f"{kind}.digest", r["digest"], digest)
    expect(f"{kind}.series", r.get("series"), target["series"])


def _dated(where: str, text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
        dated = moment.utcoffset() is not None and moment.astimezone(UTC).year >= 1
    except (ValueError, OverflowError):
        dated = False
    require(where, dated, text, "a time with its offset from UTC")


def verify_refusal(r: Record, task: Callable[[], Any]) -> None:
    """A trace that was refused left no plan to derive, and nothing may leave; the fallback beside it is the
    task's own, where the state was kept."""
    o = r["outcome"]
    fallback, feasible = math.nan, False
    if "inputs" in r:
        rules = task()
        state, params, actions = rules_of(r, rules)
        fallback, feasible = fallback_now(rules, state, params, actions)
    expect("outcome.fallback_action", o["fallback_action"], fallback)
    expect("outcome.fallback_feasible", o["fallback_feasible"], feasible)


def verify_report(r: Record, target: Record, digest: str) -> None:
    """What somebody saw come of a decision; that it was so, nobody can derive."""
    _about("outcome", r, target, digest)
    require("outcome.step", r["step"] >= 1, r["step"], "at least 1")
    low, high = r.get("rank", [0, 1]) if len(r.get("rank", [0, 1])) == 2 else (1, 0)
    require("outcome.rank", 0 <= low < high <= 1, r.get("rank"), "a low and a high share")
    _dated("outcome.observed_at", r["observed_at"])


def verify_event(r: Record) -> None:
    """What a monitor did; a person who arms it again has a name and a reason."""
    _dated("monitor.at", r["at"])
    require("monitor.plan", r["plan"].strip() != "", r["plan"], "text")
    require("monitor.why", r["by"] == "" or r["why"].strip() != "", r["why"], "text")
    if "settings" in r:
        verify_watching(r["settings"])


def verify_control(r: Record) -> None:
    """A pause of a plan, or its end."""
    for name in ("who", "why", "plan"):
        require(f"control.{name}", r[name].strip() != "", r[name], "text")
    _dated("control.at", r["at"])
    if "until" in r:
        _dated("control.until", r["until"])
