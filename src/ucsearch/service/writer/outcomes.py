"""Outcomes of decisions: reported by agents, recorded once, ranked among the forecast's members for the monitor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ucsearch.monitor import rank_of
from ucsearch.monitor.bets import LEAST_MEMBERS
from ucsearch.planner.files.series_file import LARGEST
from ucsearch.records.canonical import decode_array, seal
from ucsearch.records.entries import Request, Row
from ucsearch.service.auth import check_series
from ucsearch.service.errors import ApiProblem
from ucsearch.service.queries import find_row
from ucsearch.service.schemas import OutcomeItem, OutcomesBody, Report, Reports
from ucsearch.service.service import Service
from ucsearch.service.tokens import Principal
from ucsearch.service.writer.actions import Done, event_record, find_repeat, moment_of
from ucsearch.service.writer.writer import Turn

__all__ = ["report", "target_rank"]

_AHEAD = timedelta(days=1)  # clocks of reporters may go before ours, not by more


def report(service: Service, principal: Principal, request: Request, body: OutcomesBody) -> Any:
    """Record reports; those that say what is known already add nothing."""

    def run(turn: Turn) -> Done:
        return _Report(service, principal, request, turn).run(body.items)

    return service.act(request, run, len(body.items))


class _Report:
    """One request, in the deciding thread."""

    def __init__(self, service: Service, principal: Principal, request: Request, turn: Turn) -> None:
        self.service, self.principal, self.request, self.turn = service, principal, request, turn
        # Of this request, by head of the decision and step.
        self.fresh: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def run(self, items: Sequence[OutcomeItem]) -> Done:
        recorded_ids = {row.record["request"]["item"]: row.id for row in find_repeat(self.turn.log, self.request)}
        targets = [self._target(item, i) for i, item in enumerate(items)]
        records: dict[int, dict[str, Any]] = {}
        ids: list[str] = []
        for i, (item, row) in enumerate(zip(items, targets, strict=True)):
            report_id = recorded_ids.get(i) or self._find_same(item, row)
            if not report_id:
                self._check_value(item, row, i)
                records[i] = self._record(item, row, i)
                report_id = records[i]["id"]
            ids.append(report_id)
        if records:
            self._write(list(records.values()), [targets[i].record for i in records])
        out = [self._receipt(self.turn.log.get(name), i in records or i in recorded_ids) for i, name in enumerate(ids)]
        return Done(201 if records or recorded_ids else 200, Reports(tuple(out)))

    def _target(self, item: OutcomeItem, i: int) -> Row:
        try:
            row = find_row(self.turn.log, item.decision)
        except ApiProblem as problem:
            raise ApiProblem(problem.code, problem.detail, where=(f"items[{i}].decision",)) from None
        decision = row.record
        check_series(self.principal, str(decision.get("plan", "")), str(decision.get("series", "")))
        observed, where = moment_of(item.observed_at), (f"items[{i}].observed_at",)
        if observed is None:
            raise ApiProblem("invalid", "a time with its offset from UTC is expected", where=where)
        if observed > self.turn.now + _AHEAD:
            # Every outcome after it would count as late, and the pool of all series would never move again.
            raise ApiProblem("invalid", "a time that has come is expected", where=where)
        return row

    def _check_value(self, item: OutcomeItem, row: Row, i: int) -> None:
        """As large as a forecast may say at most (sums of larger ones end nowhere), and of as many fields. What was
        taken may be larger where a person has asked for it."""
        values = item.value if isinstance(item.value, list) else [item.value]
        overrides = self.turn.log.overrides(row.seq) if item.taken is not None else ()
        is_asked = item.taken in [row.record["outcome"]["action"], *(o.record["action"] for o in overrides)]
        numbers_taken = [] if item.taken is None or is_asked else item.taken
        for name, numbers in (
            ("value", values),
            ("taken", numbers_taken if isinstance(numbers_taken, list) else [numbers_taken]),
        ):
            if not all(abs(x) <= LARGEST for x in numbers):
                raise ApiProblem("invalid", f"at most {LARGEST:g} either way", where=(f"items[{i}].{name}",))
        trace = row.record.get("inputs", {}).get("trace", {})
        if isinstance(item.value, list) and "members" in trace:
            fields = decode_array(self.turn.log.blob(trace["members"]["$blob"])).shape[-1]
            if len(values) != fields:
                text = f"{len(values)} values, expected {fields}, one for each field"
                raise ApiProblem("invalid", text, where=(f"items[{i}].value",))

    def _reports(self, row: Row, step: int) -> list[dict[str, Any]]:
        """What was said about a step of a decision, the first one first."""
        reports = [r.record for r in self.turn.log.reports(row.id)]
        mine = [o for o in reports if o["step"] == step and o.get("entry", row.seq) == row.seq]
        return [*mine, *self.fresh.get((row.head, step), [])]

    def _find_same(self, item: OutcomeItem, row: Row) -> str:
        """The id of what says the same already."""
        for record in self._reports(row, item.step):
            if record["value"] == item.value and record.get("taken") == item.taken:
                return str(record["id"])
        return ""

    def _record(self, item: OutcomeItem, row: Row, i: int) -> dict[str, Any]:
        decision = row.record
        earlier = self._reports(row, item.step)
        record: dict[str, Any] = {
            "schema": "ucsearch.outcome/1", "kind": "outcome", "decision": row.id, "entry": row.seq,
            "digest": row.digest, "series": decision["series"], "step": item.step, "value": item.value,
            "observed_at": item.observed_at, "reported_by": self.principal.name,
            "request": self.request.at(i).content(),
        }  # fmt: skip
        if item.taken is not None:
            record["taken"] = item.taken
        if decision.get("plan"):
            record["plan"] = decision["plan"]
        if earlier:
            record["replaces"] = earlier[0]["id"]
        else:
            # As the log says, not service.toml: a monitor that was armed there follows every outcome, whoever looks.
            watched = self.service.plan_states.journal.plans.get(str(decision.get("plan", "")))
            if watched is not None and (rank := self._rank(watched.monitor.settings.lags, row, item)) is not None:
                record["rank"] = list(rank)
        sealed = seal(record)
        self.fresh.setdefault((row.head, item.step), []).append(sealed)
        return sealed

    def _rank(self, lags: int, row: Row, item: OutcomeItem) -> tuple[float, float] | None:
        """Of the target, once all its steps are known: step 1, or the sum of the first steps."""
        decision = row.record
        if decision["kind"] != "decision" or item.step > lags:
            return None
        values = {item.step: item.value}
        for step in range(1, lags + 1):
            if step != item.step:
                reports = self._reports(row, step)
                if not reports:
                    return None
                values[step] = reports[0]["value"]
        trace = decision["inputs"]["trace"]
        members, weights = (decode_array(self.turn.log.blob(trace[n]["$blob"])) for n in ("members", "weights"))
        if members.shape[1] < LEAST_MEMBERS or members.shape[2] < lags:
            return None
        return target_rank(members[0].tolist(), weights[0].tolist(), [values[s] for s in range(1, lags + 1)])

    def _write(self, batch: Sequence[dict[str, Any]], decisions: Sequence[Mapping[str, Any]]) -> None:
        """The reports about these decisions, and what follows from them for the monitors, in one commit."""
        states, log = self.service.plan_states, self.turn.log
        events: list[dict[str, Any]] = []
        try:
            for record, decision in zip(batch, decisions, strict=True):
                for trip in states.journal.add(record):
                    events.append(
                        event_record(
                            record["plan"], trip.series, trip.event, trip.evidence, trip.outcomes, trip.about,
                            self.turn.now, "", trip.why,
                        )
                    )  # fmt: skip
                states.note_outcome(decision, record["step"])
            log.append_batch([*batch, *events])
            self._tell(events)
        except BaseException:
            self.service.writer.forget()  # what was counted is not recorded
            raise

    def _tell(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Tell those who want to know what tripped or was armed again: all series of a plan in one message."""
        groups: dict[tuple[str, str, bool], list[Mapping[str, Any]]] = {}
        for event in events:
            groups.setdefault((event["event"], event["plan"], not event["series"]), []).append(event)
        for (name, plan, is_pool), group in groups.items():
            series = [] if is_pool else [event["series"] for event in group]
            about = group[0]["about"] if is_pool else ""
            self.service.notifier.tell(name, plan, series, about=about, all_together=is_pool)

    def _receipt(self, row: Row, new: bool) -> Report:
        record = row.record
        log, taken = self.turn.log, record.get("taken")
        about = log.get(record["entry"])
        before = [o for o in log.overrides(about.seq) if o.seq < row.seq]
        decided, share = about.record["outcome"]["action"], log.shares([about]).get(about.seq)
        if share is not None and share.allocation.seq < row.seq:
            decided = share.action
        effective = decided if not before or before[-1].record["action"] is None else before[-1].record["action"]
        rank = record.get("rank")
        return Report(
            row.id, row.seq, record["decision"], record["step"], record["series"], record.get("replaces"), not new,
            None if taken is None else taken == effective, None if rank is None else (rank[0], rank[1]),
        )  # fmt: skip


def target_rank(
    members: Sequence[Sequence[Sequence[float]]], weights: Sequence[float], values: Sequence[Any]
) -> tuple[float, float]:
    """Where the sum of the values fell among the members' sums over as many steps; of several fields the first."""
    lags = len(values)
    sums = [math.fsum(path[h][0] for h in range(lags)) for path in members]
    total = math.fsum(float(v[0] if isinstance(v, list) else v) for v in values)
    return rank_of(sums, total, weights)
