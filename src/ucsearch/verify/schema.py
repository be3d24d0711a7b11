"""The form of every record: each member, its type, its closed list, and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ucsearch.verify.decision.gate import CHOICES, MEASURES, REASONS, SWITCHES
from ucsearch.verify.decision.problem import SPREADS
from ucsearch.verify.read import Malformed


def _number(v: Any) -> bool:
    return type(v) in (int, float) and math.isfinite(v)


def _real(v: Any) -> bool:
    return _number(v) or v in ("inf", "-inf")


def _action(v: Any) -> bool:
    """A number, or as many as an action has."""
    return _number(v) or (isinstance(v, list) and bool(v) and all(map(_number, v)))


def _time(v: Any) -> bool:
    """Nothing, or an ISO time that exists in UTC; UTC where it names no offset."""
    try:
        return v == "" or (isinstance(v, str) and datetime.fromisoformat(v).astimezone(UTC) is not None)
    except (ValueError, OverflowError):
        return False


KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda v: isinstance(v, str),
    "time": _time,
    "truth": lambda v: isinstance(v, bool),
    "choice": lambda v: v is None or isinstance(v, bool),
    "whole": lambda v: type(v) is int,
    "count": lambda v: type(v) is int and v >= 0,
    "number": _number,  # finite
    "maybe": lambda v: v is None or _number(v),
    "limit": lambda v: v is None or (_number(v) and v >= 0),
    "real": _real,  # finite, or unbounded as text
    "wide": lambda v: _number(v) or (isinstance(v, str) and re.fullmatch("-?[1-9][0-9]{15,}", v) is not None),
    "figure": lambda v: v is None or _real(v),  # null where it does not apply
    "act": _action,
    "sent": lambda v: v is None or _action(v),  # null where nothing is
    "reading": lambda v: _number(v) or (isinstance(v, list) and bool(v) and all(map(_number, v))),
    "reading or nothing": lambda v: v is None or KINDS["reading"](v),
    "group": lambda v: v is None or isinstance(v, str),
    "limits": lambda v: isinstance(v, dict) and bool(v) and all(_number(x) and x >= 0 for x in v.values()),
    "rows": lambda v: isinstance(v, dict) and all(isinstance(x, list) and all(map(_number, x)) for x in v.values()),
    "any": lambda v: True,
    "proof": lambda v: isinstance(v, dict) and set(v) == {"part", "row", "path"},
    "hex or nothing": lambda v: v is None or KINDS["hex"](v),
    "hex": lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) is not None,
}


def _form(**names: str) -> dict[str, Any]:
    """Members by kind; a name in brackets is a list of that kind, one with a question mark may be absent."""
    items = [(name, kind) for kind, members in names.items() for name in members.split()]
    return {n.replace("[", "").replace("]", ""): [kind] if n[0] == "[" else kind for n, kind in items}


LIMITS = _form(truth=SWITCHES, limit=MEASURES, choice=CHOICES)
ROW = {"operator": ("==", "<=", ">=", ">"), **_form(text="name", figure="left", number="right", truth="pass")}
BLOB = {"$blob": "hex"}
LAW = {
    "kind": ("joint", "comonotone", "independent", "tree", "markov"), "variance_ratio": _form(figure="2? 3? 7?"),
    **_form(maybe="unit", count="points", text="hash"),
}  # fmt: skip
TRACE = {
    "hash": "hex", "members": BLOB, "weights": BLOB, "mean": BLOB, "q": BLOB, "u": BLOB, "node?": BLOB,
    "meta": {
        "coupling": ("joint", "comonotone", "independent", "tree", "markov"),
        "law?": {**_form(text="origin? unit?", count="points? bins?"), "draws?": [["text"]]},
        **_form(text="model [cutoff] [issued] [notes]"),
    },
}  # fmt: skip
CAUSES = (*REASONS, "no_information_structure")
OUTCOME = {
    "outcome": ("RELEASED", "FALLBACK", "HOLD"), "reason": (*CAUSES, "fallback_infeasible"), "cause": CAUSES,
    "pass_kind": ("", "exact", "tied", "near"),
    **_form(
        text="sentence", truth="fallback_feasible", figure="release_margin regret_bound",
        sent="action rejected_action fallback_action", maybe="fallback_cost",
    ),
}  # fmt: skip
VERSIONS = _form(text="ucsearch python numpy platform")
RECALIBRATION = {
    "method": ("rolling", "paths"), "members": BLOB, "weights": BLOB, "errors?": BLOB,
    "sums?": _form(number="[n_w] [e_w] [zeros] [n_p] [e_p] [n_rw] [r_w] [n_rp] [r_p]"),
    **_form(count="season cycles", truth="scale", real="floor"), "b?": ["number"], "c?": ["number"],
}  # fmt: skip
# `request` says who asked, and as which item of what: words, as far as a decision goes.
REQUEST = _form(hex="key body?", count="item", text="by?")
# A service's: under which plan, and until when it may be followed.
UNDER = _form(text="plan?", time="valid_until?")
TASK = _form(text="name version object [labels]", hex="rules", sent="[actions]")
INPUTS = _form(number="[state] [params]", count="[state_lengths] [params_lengths]")
PROOFS = ("oracle", "bound", "closed_exact")
DECISION: dict[str, Any] = {
    "schema": ("ucsearch.decision/1",), "kind": ("decision",), "id": "hex", "series": "text",
    "task": TASK,
    "inputs": {"trace": TRACE, **INPUTS},
    "settings": {
        "mode": (0, 1, 2, 3), "spread": SPREADS, "keep": (0, 1, 2), "kind": PROOFS, "tail?": "number",
        **_form(
            text="policy algorithm", count="depth reach width top_k node_budget simulations proof_budget",
            number="risk prune_risk info_bonus discount c_uct eps_m near_equal? band?",
            truth="use_bound every_action protect?", real="utility_budget?", wide="[extra_i] [extra_f]",
        ),
    },
    "claim": {
        "kind": PROOFS, "counters": _form(count="expansions action_scores simulations oracle_nodes"), "law?": LAW,
        **_form(
            whole="action_index selected_index baseline_index", number="eps_m", maybe="member_feasible",
            truth="certificate_pass optimal unique robust sole_action oracle_retained paper_pass search_pass proved "
            "risk_active search_active uncertainty_active cancellation",
            figure="gap regret_bound exact_regret margin eps_a proxy_slack risk_gap release_margin open_value? "
            "flexibility?",
            # Rewards near the largest float have sizes, and so tolerances, beyond it: nothing is proved then.
            real="tau", count="states? transitions?",
        ),
    },
    "rivals": [_form(
        count="index [path] [upper_path]", number="step_score", act="action", text="label", truth="retained",
        maybe="score reward uncertainty reward_only_score certain_score",
        figure="upper release_margin reward_only_upper certain_upper size reward_only_size certain_size upper_size",
    )],
    "gate": {
        "settings": LIMITS, "rows": [ROW], "now": "time", "elapsed_s": "maybe", "final_check?": "text",
        "calibration": _form(figure="eps_c undercoverage drift? overdue?"),
    },
    "outcome": OUTCOME, "versions": VERSIONS, "recalibration?": RECALIBRATION, "request?": REQUEST, **UNDER,
}  # fmt: skip
REFUSED = ("invalid_trace",)
REFUSAL: dict[str, Any] = {
    "schema": ("ucsearch.refusal/1",), "kind": ("refusal",), "id": "hex", "series": "text", "versions": VERSIONS,
    "gate": {"settings": LIMITS, "now": "time"}, "task": TASK, "inputs?": INPUTS, "request?": REQUEST, **UNDER,
    "outcome": {
        **OUTCOME, "outcome": ("HOLD",), "cause": REFUSED, "reason": REFUSED, "pass_kind": ("",), "action": (None,),
        "release_margin": (None,), "regret_bound": ("inf",), "rejected_action": (None,), "fallback_cost": (None,),
    },
}  # fmt: skip
OVERRIDE: dict[str, Any] = {
    "schema": ("ucsearch.override/1",), "kind": ("override",), "request?": REQUEST,
    **_form(hex="id overrides digest", count="entry", text="who why at series label", sent="action", truth="off_grid"),
    "forced?": (True,),
}  # fmt: skip
# The same of a row of a segment: the proof has the row's columns and its path to the root of its part.
ROW_OVERRIDE: dict[str, Any] = {**OVERRIDE, "schema": ("ucsearch.row-override/1",), "proof": "proof"}
# What came of a decision, and pauses: a service's words about the world, of a known form.
REPORT: dict[str, Any] = {
    "schema": ("ucsearch.outcome/1",), "kind": ("outcome",), "request?": REQUEST,
    **_form(hex="id decision digest", count="entry step", text="series observed_at reported_by plan?", sent="taken?"),
    "value": "reading or nothing", "rank?": ["number"], "replaces?": "hex",
}  # fmt: skip
CONTROL: dict[str, Any] = {
    "schema": ("ucsearch.control/1",), "kind": ("control",), "request?": REQUEST, "action": ("pause", "resume"),
    **_form(hex="id", text="plan who why at until?", count="carried?"),  # the entry of a file before that it repeats
}  # fmt: skip
# What the calibration monitor watches by, and what it did.
MONITOR: dict[str, Any] = {
    "schema": ("ucsearch.monitor/1",), "kind": ("monitor",), "request?": REQUEST,
    "event": ("armed", "tripped", "rearmed", "carried"),
    **_form(hex="id", text="plan series about at by why", number="evidence", count="count"),
    "settings?": {
        "watch": ("both", "spread", "bias"),
        "period": ("15min", "30min", "hour", "day", "weekday", "week", "month", "any"),
        **_form(number="max_undercoverage alpha calm", count="within lags probation"),
    },
    "state?": "any",  # of a monitor that is carried over from the file before; `verify.monitor` reads it
}  # fmt: skip
# The last entry of a file that is followed by another one, and the first entry of that.
ROTATION: dict[str, Any] = {
    "schema": ("ucsearch.rotation/1",), "kind": ("rotation",), "event": ("closed", "opened"),
    **_form(hex="id head? [tree]?", text="at by why previous? next?", count="count?"),
}  # fmt: skip
# Entries whose content was taken away: the digest of the whole, and of what is left (null: nothing is).
ERASURE: dict[str, Any] = {
    "schema": ("ucsearch.erasure/1",), "kind": ("erasure",), "request?": REQUEST,
    **_form(hex="id", text="at by why"), "entries": [{"left": "hex or nothing", **_form(count="entry", hex="digest")}],
}  # fmt: skip
ALLOCATION: dict[str, Any] = {
    "schema": ("ucsearch.allocation/1",), "kind": ("allocation",), "id": "hex", "request?": REQUEST,
    "members": [{
        "outcome": ("RELEASED", "FALLBACK", "HOLD"),
        **_form(text="series", hex="decision digest", count="entry", sent="action"), "trace?": [BLOB],
    }],
    "shared": [{"limits": "limits", "groups": ["group"], **_form(text="name use", limit="[times]"), "later?": "rows"}],
    "prices": [["number"]], "tree?": "any", "later?": "any",
    "terms": {"serve": ("fallback", "best"), **_form(limit="gap_limit", number="gap_share")},
    "claim": {
        "reason": ("none", "budget_infeasible", "allocation_gap"),
        **_form(real="lower upper", truth="passed served", count="adjusted"),
    },
}  # fmt: skip
# Limits at later steps: prices and what simulated paths say; null where nothing was shared out.
LATER: dict[str, Any] = {
    "prices": [[["number"]]], "draws": ("independent", "common"), "choices": BLOB,
    **_form(number="rent free mean bound"),
}  # fmt: skip
# A run whose rows lie in Parquet parts beside the log.
SEGMENT: dict[str, Any] = {
    "schema": ("ucsearch.segment/1",), "kind": ("segment",), "versions": "any", "request?": REQUEST,
    **_form(hex="id run shared", text="by", count="count"),
    "parts": [_form(text="name", hex="sha256 root", count="rows")],
}  # fmt: skip
_ALL = (
    SEGMENT, DECISION, REFUSAL, OVERRIDE, ROW_OVERRIDE, REPORT, CONTROL, MONITOR, ROTATION, ERASURE, ALLOCATION,
)  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {form["schema"][0]: form for form in _ALL}


def check_known(record: dict[str, Any]) -> str:
    """The record's kind, after its form was found right."""
    schema = record.get("schema")
    form = FORMS.get(schema) if isinstance(schema, str) else None
    if form is None:
        raise Malformed(f"record.schema: saw {schema!r}, expected one of {', '.join(sorted(FORMS))}")
    check(record, form)
    if form is ALLOCATION and record.get("later") is not None:
        check(record["later"], LATER, "record.later")
    return str(record["kind"])


def check(value: Any, form: Any, path: str = "record") -> None:
    """Refuse what does not have this form, naming the place."""
    if isinstance(form, dict) and isinstance(value, dict):
        members = {name.rstrip("?"): name for name in form}
        for name in dict.fromkeys([*members, *value]):
            if name in value and name in members:
                check(value[name], form[members[name]], f"{path}.{name}")
            elif name in value or members[name] == name:
                raise Malformed(f"{path}.{name}: {'an unknown member' if name in value else 'missing'}")
    elif isinstance(form, list) and isinstance(value, list):
        for i, item in enumerate(value):
            check(item, form[0], f"{path}[{i}]")
    elif isinstance(form, tuple) and any(type(value) is type(allowed) and value == allowed for allowed in form):
        return
    elif not (isinstance(form, str) and KINDS[form](value)):
        raise Malformed(f"{path}: saw {value!r}, expected {form if isinstance(form, str | tuple) else type(form)}")
