"""What evidence permits to say. Classes are computed, never typed; a sentence that is not supported is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import EvidenceError, Row
from ucsearch.lab.suites.gates.conclusions import short_conclusion
from ucsearch.lab.suites.gates.power import LEAST_POWER
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.promotion import is_promoted
from ucsearch.lab.suites.gates.value import is_worth_using
from ucsearch.lab.suites.protocol.audit import is_stopped
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, LEVEL, holds

__all__ = ["KINDS", "ClaimError", "claim", "classify", "key_text", "status_rows", "supports", "value_text"]

Predicate = Mapping[str, Any]

MOST_SEEN = 0.5  # share of a suite's test series that earlier looks, under whatever name, may have opened
_NAMES = {"cem": "CEM", "mppi": "MPPI", "ppo": "PPO", "dqn": "DQN", "fqi": "FQI", "cql": "CQL"}
INTERPRETATION = {
    "certified": "Certified trace-only endpoint: the gate's conclusions hold for this suite's families and "
    "comparators, and are not a claim about other tasks, data or forecasters.",
    "boundary": "Boundary evidence only: it documents where the gate was not passed and supports no claim of "
    "superiority.",
    "risk-free": "Diagnostic only: validation selected λ = 0, so nothing here shows a use of uncertainty.",
    "diagnostic": "Diagnostic only: the suite shows a mechanism or a reference and asks for no promotion.",
    "no-go": "Negative evidence only: the route was stopped on validation and its test split was not opened.",
}


class ClaimError(InputError):
    """A sentence that the evidence does not support."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"claim {kind!r}", why, "evidence that supports it")


# -------------------------------------------------------------------- class


def classify(predicate: Predicate, rows: Sequence[Row]) -> dict[str, Any]:
    """The verdict on a run: class, endpoint, key figures, reasons, permitted interpretation."""
    tested = [row for row in rows if row["split"] == "test"]
    series = len({(row["family"], row["series"]) for row in tested})
    seen = _seen_before(predicate, series)
    kind = _class(predicate, series)
    gate, audit, checks = predicate["gate"], predicate["audit"], predicate["checks"]
    if is_stopped(audit) and (tested or predicate["looks"]):
        raise EvidenceError("audit: it stopped this route on validation, but the test split was opened")
    if tested and not predicate["looks"]:
        raise EvidenceError("looks: saw 0, but there are rows of the test split")
    chosen = predicate["selection"] or {}
    failed = [row for row in gate if not row["pass"]]
    reasons = [_failure(row) for row in failed]
    variant: str = kind
    key: dict[str, Any]
    if kind == "no-go":
        first = audit[0]
        key = {"windows": first["windows"], "positive": first["positive"], "share": first["left"]}
        reasons = [
            f"{first['windows'] - first['positive']} of {first['windows']} validation windows lack a positive "
            f"candidate; share {_figure(first['left'])} < {first['right']}"
        ]
    elif not gate:
        variant = "diagnostic"
        key = {"windows": len(tested) or len(rows)}
        reasons = ["the suite asks for no promotion"]
    else:
        lefts = {row["name"]: row["left"] for row in gate if row["family"] is None}
        weak = [row["left"] for row in gate if row["name"] == "risk_active_family"]
        low = [row["left"] for row in gate if row["name"] == "lower_bound"]
        key = {
            "risk": chosen.get("risk"),
            "certificate": lefts.get("certificate"),
            "risk_active": lefts.get("risk_active"),
            "risk_active_weakest": None if None in weak else min(weak, default=None),
            "violations": lefts.get("violations"),
            "smallest_lower_bound": None if None in low else min(low, default=None),
            "bounds_positive": sum(row["pass"] for row in gate if row["name"] == "lower_bound"),
            "bounds": len(low),
            "series": series,
            "windows": len(tested),
        }
        if "power" in chosen:
            key["power"] = chosen["power"]
        if not tested and "power" in chosen and not holds(chosen["power"], ">=", LEAST_POWER):
            needed = f"at least {LEAST_POWER:g} is needed: the test stays closed"
            reasons = [f"power {chosen['power']:.2f} that all bounds pass, {needed}"]
        elif predicate["looks"] != 1:
            reasons.append(f"the test split was opened {predicate['looks']} times, expected once")
        if seen and is_promoted(gate, predicate["looks"]):
            reasons.append(seen)
        if kind == "certified":
            reasons = [f"all {len(gate)} conditions of the gate hold and the test split was opened once"]
        elif not holds(chosen.get("risk"), ">", 0.0):
            variant = "risk-free" if chosen.get("risk") is not None else "boundary"
    if checks:
        key |= {"checks_passed": sum(row["pass"] for row in checks), "checks": len(checks)}
        reasons += [_failure(row, "check ") for row in checks if not row["pass"]]
    reasons += [_seen(one) for one in predicate["earlier"]]
    return {
        "class": kind,
        "endpoint": predicate["endpoint"],
        "key": key,
        "reasons": reasons,
        "interpretation": INTERPRETATION[variant],
        "value": value_verdict(predicate["value"], predicate["looks"], seen),
    }


def value_verdict(conclusion: Mapping[str, Any] | None, looks: int, seen: str = "") -> dict[str, Any]:
    """The value gate's own verdict, apart from the class: passed, not passed, or not asked for. `seen` says why the
    test split was not unseen, if so."""
    if conclusion is None:
        return {"class": "not asked", "reasons": ["the suite declares no practitioners"]}
    gate = conclusion["gate"]
    if gate == GATE:
        return _primary_verdict(conclusion, looks, seen)
    reasons = [_failure(row) for row in gate if not row["pass"]]
    if looks != 1:
        reasons.append(f"the test split was opened {looks} times, expected once")
    conditions_hold = is_worth_using(conclusion, looks)
    passed = conditions_hold and not seen
    if conditions_hold and seen:
        reasons.append(seen)
    if passed:
        reasons = [f"all {len(gate)} conditions of the value gate hold and the test split was opened once"]
    if conclusion["underpowered"]:
        reasons.append(f"opened although underpowered: {conclusion['power']:.2f} that all bounds would pass")
    return {"class": "passed" if passed else "not passed", "reasons": reasons}


def _primary_verdict(conclusion: Mapping[str, Any], looks: int, seen: str) -> dict[str, Any]:
    """Of value gate 2: a second look shows nothing."""
    verdict, reasons = conclusion["verdict"], list(conclusion["why"])
    if verdict == "not sized":
        return {"class": verdict, "reasons": reasons}
    if looks != 1:
        reasons.append(f"second look: the test split was opened {looks} times")
    if seen:
        reasons.append(f"second look: {seen}")
    if verdict == "shown" and (looks != 1 or seen):
        verdict = "not shown"
    return {"class": verdict, "reasons": reasons}


def value_text(verdict: Mapping[str, Any], conclusion: Mapping[str, Any] | None) -> str:
    """The value gate in one line of a table."""
    value_class = verdict["value"]["class"]
    if conclusion is None:
        return str(value_class)
    if conclusion["gate"] == GATE:
        return f"{value_class} ({conclusion['endpoint']}); power {conclusion['power']:.2f}"
    bounds = [row for row in conclusion["gate"] if row["name"] in ("practitioner", "sampler")]
    bounds_held = sum(row["pass"] is True for row in bounds)
    low = min(bounds, key=lambda row: -math.inf if row["left"] is None else row["left"] - row["right"], default=None)
    worst = (
        "" if low is None else f"; weakest {low['comparator']} in {low['family']} {_figure(low['left'], signed=True)}"
    )
    power = f"; power {conclusion['power']:.2f}" + (" (underpowered)" if conclusion["underpowered"] else "")
    return f"{value_class}: {bounds_held}/{len(bounds)} bounds{worst}{power}"


def _seen(one: Mapping[str, Any]) -> str:
    """Periods that were no longer unseen when this suite opened them."""
    names = sorted(one["periods"])
    shown = ", ".join(f"{name} {one['periods'][name][0]}-{one['periods'][name][1] - 1}" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"test periods of {len(names)} series were opened before by look {one['look']} ({one['suite']}): {shown}{more}"
    )


def _seen_before(predicate: Predicate, series: int) -> str:
    """That most of so many test series had been looked at, in words, or "": another name does not close them."""
    opened = {name for one in predicate["earlier"] for name in one["periods"]}
    if len(opened) <= MOST_SEEN * series:
        return ""
    return f"earlier looks, under whatever name, had opened test periods of {len(opened)} of {series} series"


def _class(predicate: Predicate, series: int) -> str:
    """From the conditions' own figures; what a row says of itself is not enough."""
    if is_stopped(predicate["audit"]):
        return "no-go"
    gate = [{**row, "pass": row["pass"] is True and _holds(row)} for row in predicate["gate"]]
    promoted = is_promoted(gate, predicate["looks"]) and not _seen_before(predicate, series)
    return "certified" if promoted else "boundary"


def _holds(row: Mapping[str, Any]) -> bool:
    return holds(row["left"], row["op"], row["right"])


def _failure(row: Mapping[str, Any], kind: str = "") -> str:
    place = ", ".join(str(row[name]) for name in ("family", "comparator") if row.get(name) is not None)
    where = f" ({place})" if place else ""
    return f"{kind}{row['name']}{where}: {_figure(row['left'])}, expected {row['op']} {_figure(row['right'])}"


def _figure(value: Any, signed: bool = False) -> str:
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return "unknown"
    if float(value).is_integer() and not signed:
        return f"{value:.0f}"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


# -------------------------------------------------------------------- status table


def key_text(verdict: Mapping[str, Any]) -> str:
    """The key figures of a verdict in one line."""
    key, parts = verdict["key"], []
    if verdict["class"] == "no-go":
        missing = key["windows"] - key["positive"]
        parts.append(f"{missing}/{key['windows']} windows lack a positive candidate; share {_rate(key['share'])}")
    elif "certificate" in key:
        if verdict["class"] != "certified":
            parts.append("not promoted")
        parts.append(f"λ = {'none' if key['risk'] is None else format(key['risk'], 'g')}")
        parts.append(f"cert/risk-active {_rate(key['certificate'])}/{_rate(key['risk_active'])}")
        parts.append(f"weakest family {_rate(key['risk_active_weakest'])}")
        parts.append(f"{key['bounds_positive']}/{key['bounds']} bounds > 0")
        parts.append(f"smallest {_figure(key['smallest_lower_bound'], signed=True)}")
        parts.append(f"{key['windows']} windows")
        if "power" in key:
            parts.append(f"power before the look {key['power']:.2f}")
    else:
        parts.append(f"{key['windows']} windows")
    if "checks" in key:
        parts.append(f"{key['checks_passed']}/{key['checks']} checks hold")
    return "; ".join(parts)


def _rate(value: Any) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def status_rows(predicates: Sequence[Predicate]) -> list[dict[str, str]]:
    """The certification status table: certified first, then boundary, then no-go; by name within a class."""
    order = {"certified": 0, "boundary": 1, "no-go": 2}
    lines = [
        {
            "class": p["verdict"]["class"],
            "suite": p["suite"],
            "endpoint": p["verdict"]["endpoint"],
            "key": key_text(p["verdict"]),
            "value": value_text(p["verdict"], p["value"]),
            "interpretation": p["verdict"]["interpretation"],
            "conclusion": short_conclusion(p),
        }
        for p in predicates
    ]
    return sorted(lines, key=lambda line: (order[line["class"]], line["suite"]))


# -------------------------------------------------------------------- sentences


def claim(manifest: Mapping[str, Any], kind: str, **figures: Any) -> str:
    """A sentence of this kind about the evidence, or ClaimError if the evidence does not support it.

    `manifest` is a statement or its predicate, verified before (`verify_evidence`). Kinds: `certified`; `better_than`
    (`comparator`, optionally `family`); `rate` (`name` certificate or risk_active, `at_least`); `within_of_optimal`
    (`percent`, `over` mean or max); `check` (`name`); `observed` (`comparator`, `family`: no superiority claimed);
    `boundary`; `no_go`.
    """
    predicate = manifest.get("predicate", manifest)
    if kind not in _SENTENCES:
        raise ClaimError(kind, f"no such kind; there are {', '.join(_SENTENCES)}")
    if predicate["verdict"]["class"] != _class(predicate, predicate["verdict"]["key"].get("series", 0)):
        raise ClaimError(kind, f"a verdict of {predicate['verdict']['class']!r} that its own figures contradict")
    try:
        return _SENTENCES[kind](predicate, **figures)
    except TypeError as error:
        raise ClaimError(kind, f"other figures than it takes ({error})") from error


def supports(kind: str, manifest: Mapping[str, Any], **figures: Any) -> bool:
    """Whether `claim` would give the sentence."""
    try:
        claim(manifest, kind, **figures)
    except ClaimError:
        return False
    return True


def _certified(p: Predicate) -> str:
    _need_class(p, "certified", "certified")
    key = p["verdict"]["key"]
    return (
        f"{p['endpoint']} is certified: with λ = {key['risk']:g} selected on validation, {key['certificate']:.4f} of "
        f"decisions were proved optimal under their traces, uncertainty changed {key['risk_active']:.4f} of them "
        f"(weakest family {key['risk_active_weakest']:.4f}), no rule was broken, and {_names(COMPARATORS)} were beaten "
        f"in every family (smallest one-sided {LEVEL:.1%} lower bound {key['smallest_lower_bound']:+.4f}) "
        f"on {key['windows']} test windows, looked at once."
    )


def _better_than(p: Predicate, comparator: str, family: str | None = None) -> str:
    _need_class(p, "better_than", "certified")
    rows = _deltas(p, "better_than", comparator, family)
    bad = next((row for row in rows if not holds(row["lower"], ">", 0.0)), None)
    if bad is not None:
        raise ClaimError("better_than", f"a lower bound of {_figure(bad['lower'])} in {bad['family']}")
    where = "every family" if family is None else family
    least = min(row["lower"] for row in rows)
    return (
        f"On {p['endpoint']}, UC-Search did better than {_names([comparator])} in {where}: the mean scale-free delta "
        f"of the series is above 0 (smallest one-sided {LEVEL:.1%} lower bound {least:+.4f})."
    )


def _rate_claim(p: Predicate, name: str, at_least: float) -> str:
    names = {"certificate": "were proved optimal under their traces", "risk_active": "were changed by uncertainty"}
    if name not in names:
        raise ClaimError("rate", f"the rate {name!r}; there are {', '.join(names)}")
    left = p["verdict"]["key"].get(name)
    if p["looks"] != 1 or not holds(left, ">=", at_least):
        raise ClaimError("rate", f"{_figure(left)} with {p['looks']} looks, where {at_least} at one look is claimed")
    return f"On {p['endpoint']}, at least {at_least:g} of decisions {names[name]} ({left:.4f})."


def _within_of_optimal(p: Predicate, percent: float, over: str = "mean") -> str:
    words = {"mean": "on average", "max": "in every instance"}
    if over not in words:
        raise ClaimError("within_of_optimal", f"over={over!r}; there are {', '.join(words)}")
    row = _check_named(p, "within_of_optimal", f"gap_{over}")
    if not (holds(percent, ">=", 0.0) and holds(row["left"], "<=", percent / 100.0)):
        raise ClaimError("within_of_optimal", f"a gap of {_figure(row['left'])} ({over}), where {percent} % is claimed")
    gap = f"{row['left']:.3%}"
    return f"On {p['endpoint']}, UC-Search stayed within {percent:g} % of the optimum {words[over]} ({gap})."


def _check(p: Predicate, name: str) -> str:
    row = _check_named(p, "check", name)
    if not (row["pass"] is True and _holds(row)):
        raise ClaimError("check", f"a failed check: {_failure(row)}")
    return f"On {p['endpoint']}, {name} {row['op']} {_figure(row['right'])} holds ({_figure(row['left'])})."


def _observed(p: Predicate, comparator: str, family: str) -> str:
    (row,) = _deltas(p, "observed", comparator, family)
    return (
        f"Observed on {p['endpoint']} in {family}, without a claim of superiority: mean scale-free delta of UC-Search "
        f"against {_names([comparator])} {_figure(row['mean'], signed=True)}, interval "
        f"[{_figure(row['lower'], signed=True)}, {_figure(row['upper'], signed=True)}] over {row['series']} series."
    )


def _boundary(p: Predicate) -> str:
    _need_class(p, "boundary", "boundary")
    return f"{p['endpoint']} is boundary evidence and was not promoted: {'; '.join(p['verdict']['reasons'])}."


def _no_go(p: Predicate) -> str:
    _need_class(p, "no_go", "no-go")
    return f"{p['endpoint']} was stopped by its no-go audit, its test split unopened: {p['verdict']['reasons'][0]}."


_SENTENCES: dict[str, Callable[..., str]] = {
    "certified": _certified,
    "better_than": _better_than,
    "rate": _rate_claim,
    "within_of_optimal": _within_of_optimal,
    "check": _check,
    "observed": _observed,
    "boundary": _boundary,
    "no_go": _no_go,
}
KINDS = tuple(_SENTENCES)


def _need_class(p: Predicate, kind: str, wanted: str) -> None:
    if p["verdict"]["class"] != wanted:
        raise ClaimError(kind, f"evidence of class {p['verdict']['class']!r}")


def _deltas(p: Predicate, kind: str, comparator: str, family: str | None) -> list[Mapping[str, Any]]:
    rows = [d for d in p["deltas"] if d["comparator"] == comparator and family in (None, d["family"])]
    if not rows:
        raise ClaimError(kind, f"no delta against {comparator!r}" + ("" if family is None else f" in {family!r}"))
    return rows


def _check_named(p: Predicate, kind: str, name: str) -> Mapping[str, Any]:
    row: Mapping[str, Any] | None = next((row for row in p["checks"] if row["name"] == name), None)
    if row is None:
        raise ClaimError(kind, f"no check {name!r}")
    return row


def _names(policies: Sequence[str]) -> str:
    names = [_NAMES.get(policy, policy) for policy in policies]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
