"""What decisions were worth: the reward of the first period by the outcome that came, against what the record expected.

Only decisions that were followed count (`taken` is the decided action), with their first report of step 1; everything
is derived from the log. `eps_c` is the 95 % quantile of (|expected - realised| - risk * spread)+, with the plan's own
price of risk.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from ucsearch.answers import as_number
from ucsearch.engine.plain.window import mean_and_spread
from ucsearch.errors import UCSearchError
from ucsearch.policies import MODES
from ucsearch.records.blobs import decode_array
from ucsearch.records.canonical import decode_number
from ucsearch.records.inputs import recorded_inputs
from ucsearch.records.reader import AuditReader
from ucsearch.task import Task

__all__ = ["Realised", "RealisedView", "Worth", "worth"]

RECENT = 500  # outcomes that count, as for coverage
_LEVEL = 0.95
_CLOSE = 1e-9

TaskOf = Callable[[Mapping[str, Any]], Task | None]


class Worth(NamedTuple):
    """One followed decision, in units of reward."""

    realised: float
    expected: float
    spread: float
    risk: float  # the policy's price of spread

    @property
    def excess(self) -> float:
        return max(0.0, abs(self.expected - self.realised) - self.risk * self.spread)


@dataclass(frozen=True)
class RealisedView:
    """The last followed decisions of a plan."""

    decisions: int
    realised: float | None  # mean reward of the first period; None without any
    expected: float | None  # the same as the records expected it
    eps_c: float | None


def worth(record: Mapping[str, Any], task: Task, value: Any, blob: Callable[[str], bytes]) -> Worth | None:
    """Of a recorded decision whose first outcome was `value`; None where the record does not say, or where what it
    says of its first step does not follow from it."""
    if record.get("kind") != "decision" or record["settings"]["mode"] == MODES["scores"]:
        return None
    action = record["outcome"]["action"]
    rival = next((r for r in record["rivals"] if r["action"] == action), None)
    if action is None or rival is None or rival["step_score"] is None:
        return None
    try:
        given = recorded_inputs(record, task)
        trace, settings, a = record["inputs"]["trace"], record["settings"], float(decode_number(action))
        members, weights, mean = (decode_array(blob(trace[n]["$blob"]))[0] for n in ("members", "weights", "mean"))
        came = value if isinstance(value, list) else [value]
        if len(came) != task.fields or not len(members):
            return None

        def reward(y: Any) -> float:
            outcome = y[0] if task.outcome is None else task.outcome(*y)
            return as_number(task.reward_at(given.state, a, outcome, 0, given.params))

        rewards = [reward(path[0].tolist()) for path in members]
        own, spread = mean_and_spread(rewards, weights.tolist(), settings["spread"], settings["tail"])
        expected = reward(mean[0].tolist()) if settings["mode"] == MODES["mean"] else own
        claimed = float(decode_number(rival["step_score"]))
        if not abs(expected - settings["risk"] * spread - claimed) <= _CLOSE * max(1.0, abs(claimed), abs(expected)):
            return None
        return Worth(reward([float(x) for x in came]), expected, spread, float(settings["risk"]))
    except (UCSearchError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
        return None


class Realised:
    """The last worths by plan. Every look reads only the outcomes that are new."""

    def __init__(self, task_of: TaskOf, earlier: Callable[[], list[AuditReader]] = list) -> None:
        """`earlier` opens the files of the log before the one that is looked at."""
        self._task_of, self._earlier, self._lock = task_of, earlier, threading.Lock()
        self._seen: dict[tuple[str, str], int] = {}  # newest outcome that was looked at, by file and plan
        self._known: dict[str, deque[Worth]] = {}

    def look(self, reader: AuditReader, plan: str) -> RealisedView:
        with self._lock:
            place = (str(reader.path), plan)  # numbers begin anew in another file of the log
            seen = self._seen.get(place, 0)
            rows = reader.list(plan=plan, kind="outcome", newest_first=True, limit=RECENT)
            known = self._known.setdefault(plan, deque(maxlen=RECENT))
            for row in reversed([row for row in rows if row.seq > seen]):
                if (found := self._worth(reader, row.record)) is not None:
                    known.append(found)
            if rows:
                self._seen[place] = rows[0].seq
            return _view(known)

    def _worth(self, reader: AuditReader, outcome: Mapping[str, Any]) -> Worth | None:
        if outcome["step"] != 1 or "replaces" in outcome or outcome.get("taken") is None:
            return None
        if "log" not in outcome:
            return self._worth_in(reader, outcome)
        with ExitStack() as stack:  # the decision is in a file before; its number is another entry's here
            files = [stack.enter_context(file) for file in self._earlier()]
            return next((w for file in files if (w := self._worth_in(file, outcome)) is not None), None)

    def _worth_in(self, reader: AuditReader, outcome: Mapping[str, Any]) -> Worth | None:
        try:
            row = reader.get(outcome["entry"])
        except (UCSearchError, KeyError):
            return None
        if row.id != outcome["decision"] or outcome["taken"] != row.record["outcome"]["action"]:
            return None
        decision, task = row.record, self._task_of(row.record)
        return None if task is None else worth(decision, task, outcome["value"], reader.blob)


def _view(known: deque[Worth]) -> RealisedView:
    count = len(known)
    if not count:
        return RealisedView(0, None, None, None)
    excess = sorted(w.excess for w in known)
    return RealisedView(
        count, math.fsum(w.realised for w in known) / count, math.fsum(w.expected for w in known) / count,
        excess[min(count - 1, math.ceil(_LEVEL * count) - 1)],
    )  # fmt: skip
