"""The values of a suite's page, from its predicate and rows: tables, forests, what lies behind a failed condition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ucsearch.lab.suites.evidence.rows import UC
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.replay.statistics import mean, scale_free_delta
from ucsearch.report import charts
from ucsearch.report.text import column_texts, count_text, is_number, number, short, signed

__all__ = ["PageTable", "conditions", "deltas", "failures", "forests", "key_figures", "manifest_table", "nested",
           "policy_name", "records", "sentence", "splits", "table", "worst_series"]  # fmt: skip

Record = Mapping[str, Any]

REFERENCES = ("oracle", "hindsight")
"""Policies that know what will happen: they show what was possible, nobody competes with them."""
WORST = 10  # series of the table of worst ones
_NAMES = {
    "uc": "UC-Search", "beam": "Beam (λ = 0)", "cem": "CEM", "cql": "CQL", "delay-greedy": "Delay-aware greedy",
    "dp": "Exact DP", "dqn": "DQN", "exact": "Exact DP", "fqi": "FQI", "mppi": "MPPI", "ppo": "PPO", "ss": "(s,S)",
    "uc-mcts": "UC-MCTS",
}  # fmt: skip
_WORDS = {
    "bounds": "bounds above zero", "certificate": "certificate rate", "checks": "checks that hold", "cvar20": "CVaR20",
    "lower_bound": "lower bound of the mean delta", "positive": "positive windows",
    "positive_candidate": "any positive candidate", "risk": "selected λ", "risk_active": "risk-active rate",
    "risk_active_family": "risk-active rate of the family", "risk_active_weakest": "risk-active rate, weakest family",
    "selected_risk": "λ selected on validation",
    "selection_eligible": "selected candidate was eligible on validation",
}  # fmt: skip
_SIGNS = {">=": "≥", "<=": "≤", "==": "="}


class PageTable(NamedTuple):
    """Cells as text; columns of numbers stand right with equal decimals."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    ours: Sequence[int] = ()  # rows to set off


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], *, hows: Sequence[str] = (),
    ours: Sequence[int] = (),
) -> PageTable:  # fmt: skip
    """Values as a table. `hows`: by column how it was computed, which decides on decimals."""
    texts, numeric = [], []
    for i, column in enumerate(zip(*rows, strict=True)):
        if any(is_number(v) for v in column) and all(v is None or is_number(v) for v in column):
            numeric.append(i)
            texts.append(column_texts(column, hows[i] if i < len(hows) else ""))
        else:
            texts.append([_cell(v) for v in column])
    return PageTable(caption, heads, list(zip(*texts, strict=True)), numeric, ours)


def _cell(value: Any) -> str:
    """One value for people: numbers readable, lists with commas, long ones cut."""
    if isinstance(value, (list, tuple)):
        return short(", ".join(_cell(v) for v in value), 400) if value else "none"
    if isinstance(value, Mapping):
        return short("; ".join(f"{k} {_cell(v)}" for k, v in value.items()), 400) if value else "none"
    return number(value)


def records(caption: str, rows: Sequence[Record]) -> PageTable:
    """Dictionaries as a table, what a row is about before its figures."""
    keys = list(dict.fromkeys(str(k) for r in rows for k in r))
    keys.sort(key=lambda k: any(is_number(r.get(k)) for r in rows))
    return table(caption, [sentence(k) for k in keys], [[r.get(k) for k in keys] for r in rows])


def nested(caption: str, value: Any) -> PageTable:
    """A figure or settings of whatever shape: records as they are, else a line for each leaf."""
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        return records(caption, value)
    return table(caption, ["Name", "Value"], [[name, _cell(leaf)] for name, leaf in _leaves(value, "")])


def _leaves(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def policy_name(name: str) -> str:
    """How a policy is called on the page."""
    return _NAMES.get(name) or name[:1].upper() + name[1:].replace("_", " ")


def sentence(name: str) -> str:
    """A key such as `risk_active_family` as the beginning of a sentence."""
    words = _WORDS.get(name) or name.replace("_", " ")
    return words[:1].upper() + words[1:]


def key_figures(key: Record) -> dict[str, str]:
    """A verdict's key figures; counts beside their totals."""
    wholes = {"bounds": "bounds_positive", "checks": "checks_passed"}
    rates = ("certificate", "risk_active", "risk_active_weakest", "share")
    out = {}
    for name in sorted(set(key) - set(wholes.values())):
        text = number(key[name], 4 if name in rates and is_number(key[name]) else None)
        out[sentence(name)] = f"{number(key[wholes[name]])} of {text}" if name in wholes else text
    return out


def conditions(caption: str, rows: Sequence[Record]) -> PageTable:
    """Rows of a gate, of checks or of the audit."""
    about = [k for k in ("family", "comparator", "windows", "positive") if any(r.get(k) is not None for r in rows)]
    heads = ["Condition", *map(sentence, about), "Seen", "Needed", "Result"]
    lines = []
    for r in rows:
        named = [policy_name(r[k]) if k == "comparator" and r.get(k) else _cell(r.get(k)) for k in about]
        needed = f"{_SIGNS.get(str(r.get('op')), r.get('op'))} {number(r.get('right'))}"
        result = "✓ holds" if r.get("pass") is True else "✗ fails"
        lines.append([sentence(str(r.get("name"))), *named, number(r.get("left")), needed, result])
    return table(caption, heads, lines)


def splits(predicate: Record, rows: Sequence[Record]) -> PageTable:
    """Series and windows of each split."""
    declared = predicate["splits"]
    names = sorted({family for families in declared.values() for family in families})
    heads, lines = ["Family"], [[name] for name in names]
    for split in (s for s in ("design", "fit", "validation", "test") if s in declared):
        heads += [f"{sentence(split)}: series", "windows"]
        for line, name in zip(lines, names, strict=True):
            line += [len(declared[split].get(name, ())),
                     sum(r["split"] == split and r["family"] == name for r in rows)]  # fmt: skip
    return table("Splits", heads, lines)


def manifest_table(content: Record) -> PageTable:
    """A table of the manifest, as it was filled from the rows."""
    group = list(content.get("group") or [])
    columns = list(content.get("columns") or [])
    rows = [list(row) for row in content.get("rows") or []]
    ours = []
    if "policy" in group:
        at = group.index("policy")
        ours = [i for i, row in enumerate(rows) if row[at] == UC or str(row[at]).startswith(f"{UC}-")]
        for row in rows:
            row[at] = policy_name(str(row[at]))
    split = f" ({content['split']} split)" if content.get("split") else ""
    heads = [*map(sentence, group), *(str(c["name"]) for c in columns)]
    hows = [*("" for _ in group), *(str(c.get("how", "")) for c in columns)]
    return table(f"{content.get('title') or content['name']}{split}", heads, rows, hows=hows, ours=ours)


# -------------------------------------------------------------------- deltas


def forests(predicate: Record) -> list[tuple[str, list[str]]]:
    """A picture for each comparator from the manifest's deltas: those of the gate first."""
    by_name: dict[str, list[Record]] = {}
    for delta in predicate["deltas"]:
        if delta["comparator"] not in REFERENCES:
            by_name.setdefault(delta["comparator"], []).append(delta)
    out = []
    gated = {row["comparator"] for row in predicate["gate"] if row["comparator"] is not None}
    for title, wanted in (("Comparators of the promotion gate", True), ("Further comparators", False)):
        names = [name for name in by_name if (name in gated) is wanted]
        names.sort(key=lambda name: (name not in COMPARATORS, name))
        drawn = []
        for n, name in enumerate(names):
            lines = [(d["family"], *(_or_nan(d[k]) for k in ("mean", "lower", "upper"))) for d in by_name[name]]
            picture = charts.intervals(
                f"delta-{wanted:d}-{n}", f"Against {policy_name(name)}", lines, "", _secondary(predicate, name)
            )
            drawn.append(picture)
        if drawn:
            out.append((title, drawn))
    return out


def _secondary(predicate: Record, name: str) -> str:
    """The secondary audit in a sentence."""
    row = next((r for r in predicate["secondary"] if r["comparator"] == name), None)
    if row is None or row["mean"] is None or row["families"] < 2:
        return ""
    head = f"Equal mean of {count_text(row['families'], 'family', 'families')} {signed(row['mean'])}"
    if row["low"] is None or row["high"] is None:
        return f"{head}; one data set, so there is no interval over data sets."
    clusters = count_text(row["clusters"], "data set")
    return f"{head}; 95 % interval over {clusters} {signed(row['low'])} to {signed(row['high'])}."


def deltas(predicate: Record) -> PageTable:
    """All bounds of the manifest."""
    names = ("series", "better", "mean", "student", "bootstrap", "percentile", "upper")
    heads = ["Family", "Against", "Series", "Better on", "Mean", "Student-t", "Bootstrap-t", "Percentile", "Upper"]
    rows = [[d["family"], policy_name(d["comparator"]), *(d[k] for k in names)] for d in predicate["deltas"]]
    return table("", heads, rows)


def worst_series(predicate: Record, rows: Sequence[Record]) -> PageTable:
    """The series that were furthest behind a comparator of the gate (any comparator, where there is no gate)."""
    protocol = predicate["protocol"]
    found: list[tuple[float, str, str, str, float, float]] = []
    gated = {row["comparator"] for row in predicate["gate"] if row["comparator"] is not None}
    others = gated or {d["comparator"] for d in predicate["deltas"]} - set(REFERENCES)
    by_series: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        if row["split"] == "test":
            by_series.setdefault((row["family"], row["series"]), []).append(row["policies"])
    for (family, series), windows in by_series.items():
        own, *theirs = (
            mean([_or_nan((w.get(name) or {}).get(protocol["metric"])) for w in windows])
            for name in (protocol["policy"], *sorted(others))
        )
        for name, other in zip(sorted(others), theirs, strict=True):
            delta = scale_free_delta(own, other, protocol["form"])
            if math.isfinite(delta):
                found.append((delta, family, series, name, own, other))
    form = protocol["form"]
    heads = ["Series", "Family", "Against", "Delta", f"Our {form}", f"Its {form}"]
    lines = [[series, family, policy_name(name), delta, own, other]
             for delta, family, series, name, own, other in sorted(found)[:WORST]]  # fmt: skip
    return table("Series with the lowest deltas", heads, lines)


def _or_nan(value: Any) -> float:
    return float(value) if is_number(value) else math.nan


# -------------------------------------------------------------------- failures


def failures(predicate: Record) -> dict[str, Any]:
    """Conditions that do not hold with what lies behind each; else those that held most narrowly."""
    gate, checks = predicate["gate"], predicate["checks"]
    # Of the audit only the first row decides.
    failed = [r for r in [*(predicate["audit"] or [])[:1], *gate, *checks] if r.get("pass") is not True]
    if failed:
        why = dict.fromkeys(text for row in failed if (text := _why(row, predicate["deltas"])))
        return {"sentence": "", "conditions": conditions("Conditions that do not hold", failed), "why": list(why)}
    if not (gate or checks):
        return {"sentence": "This suite has no gate and no checks that could fail.", "conditions": None, "why": []}
    close = [r for r in gate if r["op"] in (">=", ">") and is_number(r["left"])]
    close.sort(key=lambda r: abs(r["left"] - r["right"]))
    narrow = conditions("Conditions that held most narrowly", close[:5]) if close else None
    told = "Nothing failed: every condition of the gate and every check holds."
    return {"sentence": told, "conditions": narrow, "why": []}


def _why(row: Record, found: Sequence[Record]) -> str:
    """What lies behind a condition that does not hold, as far as the rows tell."""
    name, family, left = str(row["name"]), row.get("family"), row.get("left")
    where = f"{family}: " if family else ""
    if row.get("comparator") is not None:
        return _why_bound(row, found)
    if left is None:
        return f"{where}{sentence(name)} has no finite value, which counts as failed."
    if "positive" in row:
        missing = row["windows"] - row["positive"]
        return (f"{missing} of {count_text(row['windows'], 'validation window')} offer no positive candidate, so the "
                "route stopped before its test split.")  # fmt: skip
    if name == "risk_active_family":
        idle = "Where λ is idle, an action that is best without regard to risk stays best with it, as in excess stock."
        return f"{where}in {number(1.0 - left, 4)} of decisions λ was idle or nothing was proved. {idle}"
    return {
        "certificate": f"In {number(1.0 - left, 4)} of decisions the action was not proved best of those offered.",
        "violations": f"{count_text(int(left), 'action')} broke the task's rules; the fallback took their place.",
        "selection_eligible": "No candidate met the conditions on validation; the one of largest utility was run.",
        "selected_risk": "Validation preferred a search that ignores uncertainty.",
    }.get(name, "")


def _why_bound(row: Record, found: Sequence[Record]) -> str:
    place = row["family"], row["comparator"]
    delta = next((d for d in found if (d["family"], d["comparator"]) == place), None)
    head = f"{row['family']} against {policy_name(str(row['comparator']))}"
    if delta is None or delta["mean"] is None:
        return f"{head}: a series lacks a figure, so there is no bound."
    better = f"{delta['better']} of {count_text(delta['series'], 'series', 'series')}"
    head = f"{head}: mean {signed(delta['mean'], 4)}, better on {better}"
    if not delta["mean"] > 0.0:
        return f"{head}. The comparator is at least as good on average; more series would not change that."
    return f"{head}. Better on average, but series differ too much for their number to put the bound above zero."
