"""`ucsearch explain`: why a recorded decision came out as it did, in words, from the record alone.

A record's own sentence is words: nobody verifies it, and a forged one could say anything. Everything here is put
together from figures that the verifier checks: outcome, claim, rivals and gate rows, and the rules themselves where the
task is at hand. The task is looked up (in this package, or the settings' own) to ask its rules, to name the state's
fields and to follow the plan through the forecast for a picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.certificate import Certificate, Closed
from ucsearch.decision.gate import IN_TIME, Reason
from ucsearch.decision.words import explain_condition, explain_fallback, explain_keeping, explain_mode, explain_release
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.formatting import action_figure, amount_figure, figure, moment, offered_words
from ucsearch.layout import Layout
from ucsearch.planner.decide.rows import NOT_PLANNED
from ucsearch.planner.recorded.limits import blocked_words
from ucsearch.planner.recorded.problem import asked_again, find_decision
from ucsearch.planner.recorded.shared import share_words
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import own_tasks, recorded_task
from ucsearch.policies import MODES
from ucsearch.records.canonical import decode_array, decode_number
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import recorded_action, recorded_inputs
from ucsearch.report.table import table_lines
from ucsearch.rules.answers import as_allowed, guarded
from ucsearch.scale.segments.reader import SegmentReader
from ucsearch.task import Task
from ucsearch.tasks.base import Words, config_of, quantities

__all__ = [
    "Told",
    "explain_row",
    "explain_series",
    "plain",
    "retell",
]


Floats = NDArray[np.float64]
_SHOWN = 12  # alternatives listed


@dataclass(frozen=True, eq=False)
class Told:
    """One decision, told; with what a picture of it needs."""

    series: str
    text: str
    title: str
    units: str
    members: Floats  # (J, H, F) of the recorded forecast; J and H are 0 for a refusal
    weights: Floats  # (J,)
    tracks: Floats | None  # (J, d + 1) the first state field along the plan, by member
    field: str
    orders: tuple[Any, ...]  # (d,) the plan's actions, as units where they order
    released: bool  # and not replaced by a person
    judged: int = 0  # steps of the plan before its horizon ends too soon to judge them
    action: str = "order"  # what is decided, and its unit
    action_unit: str = ""
    outcome_unit: str = ""  # of the forecast


def explain_series(log: str | Path, series: str, settings: Settings | None = None) -> Told:
    """Tell the newest decision of a series; an id, or its first 8 digits, names a decision directly."""
    with SegmentReader(log).knowing(own_tasks(settings)) as reader:
        return explain_row(reader, find_decision(reader, series), settings)


def explain_row(reader: AuditReader, row: Row, settings: Settings | None = None) -> Told:
    """Tell one decision."""
    log = reader.path
    blobs = {name: decode_array(data) for name, data in reader.blobs_of(row).items()}
    said = reader.overrides_of(row) if isinstance(reader, SegmentReader) else reader.overrides(row.seq)
    overrides = [r.record for r in said]
    shared = share_words(reader, row, settings) if row.record.get("kind") == "decision" else []
    binds = _binds(reader, row, settings)
    try:
        told = _tell(row, blobs, overrides, settings, binds)
        if not shared:
            return told
        title, *rest = told.text.split("\n")
        return replace(told, text="\n".join([title, "", *map(plain, shared), "", "Without the limit:", *rest]))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise RecordError(
            f"entry {row.seq} of {log} is not a decision that this version can read ({error!r})"
        ) from error


def _binds(reader: AuditReader, row: Row, settings: Settings | None) -> list[str]:
    """Which limit left nothing to send, or no plan, and what it would have to be."""
    record = row.record
    outcome = record.get("outcome")
    task = recorded_task(record.get("task", {}), settings)
    if task is None or record.get("kind") != "decision" or not isinstance(outcome, dict):
        return []
    if outcome.get("outcome") != "HOLD" and outcome.get("cause") != "dead_end":
        return []
    try:
        words = blocked_words(asked_again(reader, row, task))
    except UCSearchError:  # what cannot be decided again is still told
        return []
    return [f"What binds: {words}."] if words else []


def _tell(
    row: Row, blobs: dict[str, Floats], overrides: list[dict[str, Any]], settings: Settings | None, binds: list[str]
) -> Told:
    record = row.record
    if record["kind"] == "refusal":
        return _tell_refusal(row, overrides, settings)
    outcome, claim = record["outcome"], record["claim"]
    trace = record["inputs"]["trace"]
    members, weights = blobs[trace["members"]["$blob"]][0], blobs[trace["weights"]["$blob"]][0]
    task = recorded_task(record["task"], settings)
    units = settings.units if settings is not None else "units"
    money = settings.currency if settings is not None and settings.currency else ""
    words = Words("outcome", units, "action", "") if task is None else config_of(task).words(units, money)
    index = claim["action_index"]
    path: list[int] = next((r["path"] for r in record["rivals"] if r["index"] == index), [])
    actions = [recorded_action(a) for a in record["task"]["actions"]]
    plan = tuple(actions[i] for i in path)
    tracks, orders, field = _follow(task, record, members, plan)
    field = words.fields.get(field, (field, ""))[0]
    series = record["series"]
    replaced = _is_replaced(overrides)
    title = _title(row, outcome["outcome"], replaced)
    lines = [
        f"{title}, entry {row.seq} of the log" + (f", written {moment(row.written_at)}" if row.written_at else ""),
        "",
        *retell(record, task, money),
        *binds,
        *_overridden(overrides, record, task),
        "",
        _situation(task, record, units, money),
        _forecast_line(members, trace["meta"], words.outcome_unit, task),
    ]
    reach = int(record["settings"].get("reach", len(plan)))
    judged = len(plan) if task is None else task.judged(reach)
    if plan:
        sizes = ", ".join(amount_figure(x) for x in orders[:judged])
        word = "The plan" if outcome["outcome"] == "RELEASED" else "The plan that was not released"
        word += " before a person decided otherwise" if replaced else ""
        count = f"{len(plan)} {'step' if len(plan) == 1 else 'steps'}"
        text = f"{word}, {count}: {sizes} {words.action_unit}".rstrip()
        if judged < len(plan):
            text += f"; the last {len(plan) - judged} {NOT_PLANNED}: the horizon ends before they can be judged"
        elif reach > len(plan):
            text += f"; then, over {reach} steps in all, the rule for later orders that is best over all members"
        lines.append(text + ".")
    share = claim.get("member_feasible")
    mode = record["settings"]["mode"]
    keeping = explain_keeping(math.nan if share is None else float(share), weights.tolist(), mode)
    lines.append(f"It was {explain_mode(mode)}" + (f"; it {keeping}." if keeping else "."))
    lines += ["", "Conditions:"]
    for gate in record["gate"]["rows"]:
        left, right = _figure(gate["left"]), _figure(gate["right"])
        lines.append(f"  {explain_condition(gate['name'], left, gate['operator'], right, gate['pass'])}")
    lines += ["", *_alternatives(record, money)]
    lines += ["", f"certificate {row.id}"]
    return Told(
        series, "\n".join(map(plain, lines)), title, units, members, weights,
        tracks, field, orders, outcome["outcome"] == "RELEASED" and not replaced, judged, words.action,
        words.action_unit, words.outcome_unit,
    )  # fmt: skip


def _tell_refusal(row: Row, overrides: list[dict[str, Any]], settings: Settings | None) -> Told:
    """There is no forecast to show: it, or the state, was refused."""
    record = row.record
    outcome, series = record["outcome"], record["series"]
    title = _title(row, outcome["outcome"], _is_replaced(overrides))
    when = f", written {moment(row.written_at)}" if row.written_at else ""
    task = recorded_task(record.get("task", {}), settings)
    lines = [
        f"{title}, entry {row.seq} of the log{when}",
        "",
        *retell(record, task),
        *_overridden(overrides, record, task),
    ]
    text = "\n".join(map(plain, [*lines, "", f"certificate {row.id}"]))
    return Told(series, text, title, "", np.zeros((0, 0, 1)), np.zeros(0), None, "", (), False)


def _is_replaced(overrides: list[dict[str, Any]]) -> bool:
    """Whether a person's action counts."""
    return bool(overrides) and overrides[-1]["action"] is not None


def _title(row: Row, outcome: str, replaced: bool) -> str:
    said = f"OVERRIDDEN (decided: {outcome})" if replaced else outcome
    return f"{row.record['series'] or row.id[:12]}: {said}"


def _overridden(overrides: list[dict[str, Any]], record: dict[str, Any], task: Task | None) -> list[str]:
    """What people did about it, oldest first, and what counts now."""
    if not overrides:
        return []
    lines, last = [], "the decision as recorded"
    for o in overrides:
        if o["action"] is None:
            last = "the decision as recorded"
            lines.append(f"Withdrawn by {o['who']}, because {o['why']}.")
        else:
            off = " (not one of those offered)" if o.get("off_grid") else ""
            taken = o["action"] if isinstance(o["action"], int | float) else action_figure(recorded_action(o["action"]))
            last = f"{taken}{_units_of(o['action'], record, task)}"
            lines.append(f"Overridden by {o['who']}: {taken}{off} instead, because {o['why']}.")
    return ["", *lines, f"In force: {last}."]


def _units_of(action: Any, record: dict[str, Any], task: Task | None) -> str:
    """What a person's level or rounded size orders, where that is another number."""
    if task is None or not config_of(task).places_orders:
        return ""
    try:
        inputs = recorded_inputs(record, task)
        taken = recorded_action(action)
        order = config_of(task).quantity(inputs.state, taken, inputs.params)
    except UCSearchError:
        return ""
    return "" if order == taken or task.width else f", which orders {figure(order)}"


def _situation(task: Task | None, record: dict[str, Any], units: str, money: str) -> str:
    values = [float(decode_number(x)) for x in record["inputs"]["state"]]
    if task is None:
        return f"State: {', '.join(figure(v) for v in values)}."
    state = Layout(task.state, tuple(record["inputs"]["state_lengths"])).build(values)
    params = None if task.params is None else _params(task, record)
    return f"{config_of(task).situation(state, params, units, money)}."


def _params(task: Task, record: dict[str, Any]) -> Any:
    values = [float(decode_number(x)) for x in record["inputs"]["params"]]
    return None if task.params_layout is None else task.params_layout.build(values)


def _forecast_line(members: Floats, meta: dict[str, Any], units: str, task: Task | None) -> str:
    if members.shape[0] == 0:
        return "The forecast gave scores of actions, no outcomes."
    several = members.shape[2] > 1
    names: Sequence[str] = [f"field {k + 1}" for k in range(members.shape[2])]
    if task is not None and task.outcome is not None:
        names = task.outcome._fields
        drawn = config_of(task).drawn  # nobody forecast these
        members = members[..., [k for k, name in enumerate(names) if name not in drawn]]
        names, several = [name for name in names if name not in drawn], members.shape[2] > 1
    parts = []
    for name, values in zip(names, members[:, 0].T, strict=True):
        low, high = np.quantile(values, [0.05, 0.95])
        told = f"{name} {figure(values.mean(), 4)}" if several else f"{figure(values.mean(), 4)} {units}"
        parts.append(f"{told} on average, 5 to 95 %: {figure(low, 4)} to {figure(high, 4)}")
    text = f"Forecast: {members.shape[0]} members over {members.shape[1]} steps"
    text += f" by {meta['model']}" if meta["model"] else ""
    text += f", made {', '.join(meta['issued'])}" if meta["issued"] else ""
    return f"{text}; the next step {'; '.join(parts)}."


def _alternatives(record: dict[str, Any], money: str) -> list[str]:
    index = record["claim"]["action_index"]
    rivals = record["rivals"]
    if not rivals:
        return []
    ranked = sorted(rivals, key=lambda r: (r["index"] != index, -_bound(r)))
    unit = f" [{money}]" if money else ""
    rows = [("first action", f"scores{unit}", f"at most{unit}", "")]
    for r in ranked[:_SHOWN]:
        note = "<- proposed" if r["index"] == index else ""
        rows.append((r["label"], _figure(r["score"]), _figure(r["upper"]), note))
    lines = ["Alternatives, by the most they can score:"]
    lines += [f"  {line}" for line in table_lines(rows, ">>><")]
    if len(ranked) > _SHOWN:
        lines.append(f"  and {len(ranked) - _SHOWN} more")
    return lines


def _bound(rival: dict[str, Any]) -> float:
    return math.inf if rival["upper"] is None else float(decode_number(rival["upper"]))


def _figure(value: Any) -> str:
    return "-" if value is None else figure(decode_number(value))


def _follow(
    task: Task | None, record: dict[str, Any], members: Floats, plan: tuple[Any, ...]
) -> tuple[Floats | None, tuple[Any, ...], str]:
    """The first state field along the plan for every member, and what is ordered on the way at the mean forecast."""
    if task is None or not plan or not members.shape[0]:
        return None, plan, ""
    inputs = record["inputs"]
    layout = Layout(task.state, tuple(inputs["state_lengths"]))
    start = layout.build([float(decode_number(x)) for x in inputs["state"]])
    params = None if task.params is None else _params(task, record)
    tracks = np.empty((members.shape[0], len(plan) + 1))
    kind = task.outcome
    for j, path in enumerate(members.tolist()):
        outcomes = [y[0] if kind is None else kind(*y) for y in path]
        state = start
        tracks[j, 0] = layout.flatten(state, "state")[0]
        for h, action in enumerate(plan):
            state = task.step_at(state, action, outcomes[h], h, params)
            tracks[j, h + 1] = layout.flatten(state, "state")[0]
    mean = members.mean(axis=0).tolist()
    orders = quantities(task, start, plan, [y[0] if kind is None else kind(*y) for y in mean], params)
    return tracks, orders, layout.names[0]


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
    return [shown, "", f"The record's own words, not verified: {plain(record['outcome']['sentence'])}"]


def _sentence(record: dict[str, Any], task: Task | None, money: str) -> str:
    outcome = record["outcome"]
    label = _label(record, outcome["action"])
    if outcome["outcome"] == "RELEASED":
        return explain_release(cast(Certificate, _Recorded(record, task)), label, outcome["pass_kind"], money)
    cause = Reason(outcome["cause"])
    certificate = None if record["kind"] == "refusal" else cast(Certificate, _Recorded(record, task))
    sent = None if outcome["outcome"] == "HOLD" else label
    unsaid = _UNSAID.get(cause)
    if record["gate"].get("final_check"):  # nobody can derive that again, so the words are marked as the record's
        unsaid = f"as the record says, {plain(record['gate']['final_check'])}"
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
    found = [recorded_action(a) for a in record["task"]["actions"]]
    actions = [math.nan if a is None else a for a in found]
    if task is None:
        return offered_words([float(i) if isinstance(a, tuple) else a for i, a in enumerate(actions)])
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
        return "?" if action is None else action_figure(recorded_action(action))
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
