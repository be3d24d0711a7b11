"""What waits for a person, the worst first. Many of one kind are told in one line, so that nothing hides the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ucsearch.errors import RecordError
from ucsearch.monitor import Settings
from ucsearch.monitor.bets import ADVICE
from ucsearch.records.reader import AuditReader
from ucsearch.report.text import short
from ucsearch.service.reads import PlanView
from ucsearch.service.tally import Newest
from ucsearch.service.watching import MonitorView

__all__ = ["Need", "decision_needs", "fitting", "in_order", "monitor_needs", "next_steps", "plan_needs"]

_SOON = timedelta(hours=1)
_SOON_SHARE = 0.25  # of the time a decision is valid: one that lasts an hour does not end soon all the time
_LATELY = timedelta(days=1)  # what ended earlier is history
_HOLDS = 100  # on hold, of all plans, of which overrides are looked up
_TOGETHER = 5  # more of one plan and kind are told in one line
_NAMED = 3  # series of such a line
_BAD = ("tripped", "HOLD")  # in this order
_ARMED_BY = "name another model, or are accepted as they are"


@dataclass(frozen=True)
class Need:
    """Something that waits for a person."""

    tone: str  # bad or warn
    what: str  # HOLD, expires, ...
    plan: str
    series: str
    text: str
    id: str = ""  # of the decision
    act: str = ""  # what helps: "override" it, or a "list" of such decisions


def decision_needs(reader: AuditReader, newest: Mapping[str, Sequence[Newest]], now: datetime) -> list[Need]:
    """Newest decisions that send nothing, and those that end soon, or have ended, with none after them."""
    out = []
    room = _HOLDS
    for plan, known in newest.items():
        silent = [n for n in known if not n.sends and not _over(n, now)]
        held = _held(reader, silent[:room])
        if len(silent) > room:
            text = f"{len(silent) - room} more decisions send nothing, unless a person has decided."
            out.append(Need("bad", "HOLD", plan, "", text, act="list"))
        room = max(0, room - len(silent))
        soon, ended = [], []
        for n in known:
            if not n.valid_until:
                if n.id in held:
                    out.append(_hold(plan, n))
                continue
            end = datetime.fromisoformat(n.valid_until)
            left = end - now
            if left <= -_LATELY:
                continue
            if left <= timedelta(0):
                ended.append(n)
            elif n.id in held:
                out.append(_hold(plan, n))
            elif n.sends and left <= min(_SOON, _SOON_SHARE * (end - datetime.fromisoformat(n.now))):
                soon.append((n, max(1, round(left.total_seconds() / 60.0))))
        out += _expired(plan, ended)
        out += _expiring(plan, soon)
    return out


def _held(reader: AuditReader, candidates: Sequence[Newest]) -> set[str]:
    """Ids of those for which nobody has decided either. One of an earlier file of the log counts as open."""
    rows, out = [], set()
    for n in candidates:
        try:
            rows.append(reader.get(n.id))
        except RecordError:
            out.add(n.id)
    standing = reader.effective(rows)
    return out | {row.id for row in rows if standing[row.seq].action is None}


def _over(n: Newest, now: datetime) -> bool:
    return bool(n.valid_until) and not now < datetime.fromisoformat(n.valid_until)


def _hold(plan: str, n: Newest) -> Need:
    return Need("bad", "HOLD", plan, n.series, n.sentence, n.id, "override")


def _expired(plan: str, ended: Sequence[Newest]) -> list[Need]:
    if len(ended) > _TOGETHER:
        text = f"The last decisions of {_some([n.series for n in ended])} are no longer valid; nothing newer has come."
        return [Need("warn", "expired", plan, "", f"{text} Look at what asks for them.")]
    text = "Its last decision is no longer valid, and nothing newer has come."
    return [Need("warn", "expired", plan, n.series, text, n.id) for n in ended]


def _expiring(plan: str, soon: Sequence[tuple[Newest, int]]) -> list[Need]:
    if len(soon) > _TOGETHER:
        names, least = [n.series for n, _ in soon], min(minutes for _, minutes in soon)
        text = f"The decisions of {_some(names)} end soon, the first in {_minutes(least)}; nothing newer has come."
        return [Need("warn", "expires", plan, "", text)]
    return [
        Need("warn", "expires", plan, n.series, f"Valid for {_minutes(m)} more, and nothing newer has come.", n.id)
        for n, m in soon
    ]


def monitor_needs(m: MonitorView, starved: Sequence[tuple[str, int]] = ()) -> list[Need]:
    """Streams that have tripped, and outcomes that nobody reported."""
    out = []
    if m.state == "tripped" and m.pool is not None:
        text = f"All series together: {m.pool.about}. Nothing of the plan is released until an admin arms it again."
        out.append(Need("bad", "tripped", m.plan, "", text))
    tripped = [s for s in m.streams if s.state == "tripped"]
    if len(tripped) > _TOGETHER:
        text = f"{_some([s.series for s in tripped], m.tripped)} have tripped. Their fallbacks leave instead."
        out.append(Need("bad", "tripped", m.plan, "", text))
    else:
        for s in tripped:
            text = f"{s.about.capitalize()}. The fallback leaves instead."
            out.append(Need("bad", "tripped", m.plan, s.series, text))
    if m.overdue:
        of = f" of {_some([name for name, _ in starved])}" if starved else ""
        text = f"{m.overdue} outcome{'' if m.overdue == 1 else 's'}{of} not reported in time: the monitor starves."
        out.append(Need("warn", "overdue", m.plan, "", text))
    return out


def plan_needs(plan: PlanView, changed: bool) -> list[Need]:
    out = []
    if plan.paused and plan.pause is not None:
        text = f"{plan.pause.get('who', '')}: {plan.pause.get('why', '')}"
        out.append(Need("warn", "paused", plan.name, "", text))
    if changed:
        text = "Its settings file is not the one that is followed. A restart would follow it."
        out.append(Need("warn", "changed", plan.name, "", text))
    return out


def in_order(needs: Iterable[Need]) -> list[Need]:
    """A tripped monitor first, which stops most, then what is on hold, then the rest as it came."""
    return sorted(needs, key=lambda n: _BAD.index(n.what) if n.what in _BAD else len(_BAD))


def _some(names: Sequence[str], count: int | None = None) -> str:
    """How many series, and the names of a few."""
    total = len(names) if count is None else count
    shown = ", ".join(short(name, 40) for name in names[:_NAMED])
    return f"{total} series ({shown}{', ...' if total > _NAMED else ''})"


def _minutes(count: int) -> str:
    return f"{count} minute{'' if count == 1 else 's'}"


def fitting(names: Sequence[str], room: int, each: int = 700) -> int:
    """How many rows fit into so many bytes, where each has a name as text and in a link; at least one. Names may be
    200 characters long, of four bytes each, and a link takes three for every one of them."""
    for i, name in enumerate(names):
        room -= each + 5 * len(name.encode("utf-8", "replace"))
        if room < 0:
            return max(1, i)
    return len(names)


def next_steps(settings: Settings | None, m: MonitorView) -> list[tuple[str, str]]:
    """What has stopped, and what to do about it."""
    out: list[tuple[str, str]] = []
    if settings is None:
        return out
    if m.state == "tripped" and m.pool is not None:
        why = f" ({ADVICE[m.pool.about]})" if m.pool.about in ADVICE else ""
        text = f"All series together: {m.pool.about or 'tripped before'}{why}. An admin arms them again, when the "
        out.append(("Nothing of the plan is released, fallbacks leave.", text + f"forecasts {_ARMED_BY}."))
    if m.tripped:
        text = (
            "Look for what happened to them, and override what cannot wait. Each is armed again by itself after "
            f"{settings.probation} calm outcomes in a row, or by an admin, when its forecasts {_ARMED_BY}."
        )
        out.append(
            (f"{m.tripped} series tripped on {'its' if m.tripped == 1 else 'their'} own, fallbacks leave.", text)
        )
    if m.overdue:
        text = "Report what came of those decisions; late reports still count for their series."
        out.append((f"{m.overdue} outcome{'' if m.overdue == 1 else 's'} overdue.", text))
    return out
