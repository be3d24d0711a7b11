"""What waits for a person, the worst first: since when, and what can be done. Many of one kind are told in one line, so
that nothing hides the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ucsearch.records.log import AuditReader
from ucsearch.report.text import short
from ucsearch.service.queries import Newest, Tally
from ucsearch.service.schemas import MonitorView, PlanView

__all__ = ["Need", "decision_needs", "in_order", "log_needs", "monitor_needs", "plan_needs", "rows_that_fit"]

_SOON = timedelta(hours=1)
_SOON_SHARE = 0.25  # of the time a decision is valid: one that lasts an hour does not end soon all the time
_LATELY = timedelta(days=1)  # what ended earlier is history
_HOLDS = 100  # on hold, of all plans, of which overrides are looked up
_TOGETHER = 5  # more of one plan and kind are told in one line
_NAMED = 3  # series of such a line
_ORDER = ("log", "tripped", "HOLD")  # the worst first
_OLD_BACKUPS = 2.5  # times as long as between two


@dataclass(frozen=True)
class Need:
    """Something that waits for a person."""

    tone: str  # bad or warn
    what: str  # HOLD, expires, ...
    plan: str
    series: str
    text: str
    since: str = ""  # ISO time; "" where nobody knows
    id: str = ""  # of the decision
    act: str = ""  # what helps: decide, list, rearm, look, report, resume, restart, verify


def decision_needs(reader: AuditReader, tally: Tally, plans: Iterable[str], now: datetime) -> list[Need]:
    """Newest decisions that send nothing, and those that end soon, or have ended, with none after them."""
    out = []
    room = _HOLDS
    for plan in plans:
        on_hold, more = tally.held(reader, plan, now, room)
        room = max(0, room - len(on_hold))
        out += [Need("bad", "HOLD", plan, n.series, n.sentence, n.now, n.id, "decide") for n in on_hold]
        if more:
            text = f"{more} more decisions send nothing, unless a person has decided."
            out.append(Need("bad", "HOLD", plan, "", text, act="list"))
        soon, ended = [], []
        for n in tally.newest(plan, now):
            if not n.valid_until:
                continue
            end = datetime.fromisoformat(n.valid_until)
            time_left = end - now
            if -_LATELY < time_left <= timedelta(0):
                ended.append(n)
            elif n.sends and timedelta(0) < time_left <= min(
                _SOON, _SOON_SHARE * (end - datetime.fromisoformat(n.now))
            ):
                soon.append((n, max(1, round(time_left.total_seconds() / 60.0))))
        out += _expired_needs(plan, ended)
        out += _expiring_needs(plan, soon)
    return out


def _expired_needs(plan: str, ended: Sequence[Newest]) -> list[Need]:
    if len(ended) > _TOGETHER:
        names = _name_some([n.series for n in ended])
        text = f"The last decisions of {names} are no longer valid; nothing newer has come."
        since = min(n.valid_until for n in ended)
        return [Need("warn", "expired", plan, "", f"{text} Look at what asks for them.", since, act="list")]
    text = "Its last decision is no longer valid, and nothing newer has come."
    return [Need("warn", "expired", plan, n.series, text, n.valid_until, n.id, "look") for n in ended]


def _expiring_needs(plan: str, soon: Sequence[tuple[Newest, int]]) -> list[Need]:
    if len(soon) > _TOGETHER:
        names, least = [n.series for n, _ in soon], min(minutes for _, minutes in soon)
        text = f"The decisions of {_name_some(names)} end soon, the first in {_minutes(least)}; nothing newer has come."
        return [Need("warn", "expires", plan, "", text, act="list")]
    text = "Valid for {} more, and nothing newer has come."
    return [Need("warn", "expires", plan, n.series, text.format(_minutes(m)), n.now, n.id, "look") for n, m in soon]


def monitor_needs(m: MonitorView, starved: Sequence[tuple[str, int]] = (), since: str = "") -> list[Need]:
    """Streams that have tripped, and outcomes that nobody reported (`since` the first was due)."""
    out = []
    if m.state == "tripped" and m.pool is not None:
        text = f"All series together: {m.pool.about}. Nothing of the plan is released. {m.pool.next}"
        out.append(Need("bad", "tripped", m.plan, "", text, m.pool.since, act="rearm"))
    tripped = [s for s in m.streams if s.state == "tripped"]
    if len(tripped) > _TOGETHER:
        text = f"{_name_some([s.series for s in tripped], m.tripped)} have tripped. Their fallbacks are sent instead."
        first = min(s.since for s in tripped)
        out.append(Need("bad", "tripped", m.plan, "", text, first, act="rearm"))
    else:
        for s in tripped:
            text = f"{s.about.capitalize()}. Its fallback is used instead. {s.next}"
            out.append(Need("bad", "tripped", m.plan, s.series, text, s.since, act="look"))
    if m.overdue:
        of = f" of {_name_some([name for name, _ in starved])}" if starved else ""
        text = (
            f"{m.overdue} outcome{'' if m.overdue == 1 else 's'}{of} not reported in time. Without them the monitor "
            "sees nothing."
        )
        out.append(Need("warn", "overdue", m.plan, "", text, since, act="report"))
    return out


def plan_needs(plan: PlanView, changed: bool) -> list[Need]:
    out = []
    if plan.paused and plan.pause is not None:
        until = plan.pause.get("until", "")
        text = f"{plan.pause.get('who', '')}: {plan.pause.get('why', '')}" + (f" (until {until})" if until else "")
        out.append(Need("warn", "paused", plan.name, "", text, plan.pause.get("at", ""), act="resume"))
    if changed:
        text = "Its settings file is not the one that is followed. A restart would follow it."
        out.append(Need("warn", "changed", plan.name, "", text, act="restart"))
    return out


def log_needs(fault: str, backup_age_s: float, every_h: float) -> list[Need]:
    """An altered log, and copies that are not taken."""
    out = []
    if fault:
        text = f"It is not what was recorded: {fault}. Nothing is decided until it is restored."
        out.append(Need("bad", "log", "", "", text, act="verify"))
    if backup_age_s > _OLD_BACKUPS * 3_600.0 * every_h:  # NaN where none is to be taken
        age = (
            "There is no copy of the log"
            if backup_age_s == float("inf")
            else (f"The newest copy of the log is {round(backup_age_s / 3_600.0)} hours old")
        )
        out.append(Need("warn", "backup", "", "", f"{age}; one every {every_h:g} hours is wanted.", act="restart"))
    return out


def in_order(needs: Iterable[Need]) -> list[Need]:
    """What stops most first: an altered log, a tripped monitor, what is on hold, then the rest as it came."""
    return sorted(needs, key=lambda n: _ORDER.index(n.what) if n.what in _ORDER else len(_ORDER))


def _name_some(names: Sequence[str], count: int | None = None) -> str:
    """How many series, and the names of a few."""
    total = len(names) if count is None else count
    shown = ", ".join(short(name, 40) for name in names[:_NAMED])
    return f"{total} series ({shown}{', ...' if total > _NAMED else ''})"


def _minutes(count: int) -> str:
    return f"{count} minute{'' if count == 1 else 's'}"


def rows_that_fit(names: Sequence[str], room: int, each: int = 700) -> int:
    """How many rows fit into so many bytes, where each has a name as text and in a link; at least one. Names may be
    200 characters long, of four bytes each, and a link takes three for every one of them."""
    for i, name in enumerate(names):
        room -= each + 5 * len(name.encode("utf-8", "replace"))
        if room < 0:
            return max(1, i)
    return len(names)
