"""When orders may be placed and when they arrive: weekdays, holidays, every so many periods.

An order of period c arrives on the first delivery day at or after c + lead time. Orders do not cross: a later order
never arrives before an earlier one, and orders for the same day are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import accumulate
from typing import NamedTuple

from ucsearch.errors import InputError

__all__ = ["WEEKDAYS", "Calendar", "calendar_of", "weekday_flags"]

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_WAIT = 370  # periods without an order day or a delivery day


class Calendar(NamedTuple):
    """What holds at each place of the calendar; after the last place comes the first."""

    open: tuple[float, ...]  # 1: orders may be placed
    due: tuple[float, ...]  # 1: a delivery day
    slot: tuple[float, ...]  # delivery days from this one on, today's counted, before that of today's order
    span: tuple[float, ...]  # periods until the order after today's can arrive

    @property
    def places(self) -> int:
        """Open orders that can be told apart at the start of a period."""
        return max(1, *(int(k - d) + 1 for k, d in zip(self.slot, self.due, strict=True)))

    @property
    def longest(self) -> int:
        """Periods until the order after today's can arrive, at most."""
        return int(max(self.span))

    def arrival(self, place: int) -> int:
        """Periods from a place of the calendar to the arrival of what is ordered there."""
        wanted = int(self.slot[place])
        return self.delivery(place, wanted)

    def delivery(self, place: int, count: int) -> int:
        """Periods to the delivery day after `count` others, that of the place itself counted."""
        found, ahead = -1, -1
        while found < count:
            ahead += 1
            found += self.due[(place + ahead) % len(self.due)] != 0.0
        return ahead

    @property
    def least_depth(self) -> int:
        """Periods that reach one period past the arrival of the second order day from now."""
        count, found = len(self.open), 2
        for c in range(count):
            if self.open[c]:
                after = next(k for k in range(1, _LONGEST_WAIT) if self.open[(c + k) % count])
                found = max(found, after + self.arrival((c + after) % count) + 2)
        return found


def weekday_flags(field: str, days: Sequence[str], count: int) -> tuple[bool, ...]:
    """(count,) which weekdays are named, Monday first; all where none is. Three letters name a day too."""
    if isinstance(days, str):
        days = (days,)
    flags = [not days] * count
    for i, day in enumerate(days):
        found = [k for k, name in enumerate(WEEKDAYS[:count]) if len(day) >= 3 and name.startswith(day.lower())]
        if len(found) != 1:
            raise InputError(field, repr(day), f"a weekday, {WEEKDAYS[0]} to {WEEKDAYS[count - 1]}", index=i)
        flags[found[0]] = True
    return tuple(flags)


def calendar_of(
    order_days: Sequence[bool], delivery_days: Sequence[bool], lead: int,
    first: date | None = None, holidays: Sequence[date] = (), length: int = 0,
) -> Calendar:  # fmt: skip
    """The calendar of a cycle of days, of which both tuples have one flag a day. With `holidays` it does not repeat: it
    has `length` places from the day `first` on, whose place in the cycle is its weekday."""
    cycle = len(order_days)
    if first is None:
        count, begin, closed = cycle, 0, frozenset[int]()
    else:
        count, begin = length, first.weekday() % cycle
        closed = frozenset(_places(first, holidays, cycle))
    total = count + 2 * _LONGEST_WAIT
    opened = [order_days[(begin + c) % cycle] and c not in closed for c in range(total)]
    due = [delivery_days[(begin + c) % cycle] and c not in closed for c in range(total)]
    next_due = _next(due)
    next_open = _next(opened)
    before = [0, *accumulate(due)]  # delivery days before each place
    arrive = [next_due[min(c + lead, total - 1)] for c in range(total)]
    slot, span = [], []
    for c in range(count):
        after = next_open[c + 1]
        if not (c <= arrive[c] < total and after < total and arrive[after] < total):
            raise InputError("order_days, delivery_days", "no day within a year", "an order day and a delivery day")
        slot.append(float(before[arrive[c]] - before[c]))
        span.append(float(arrive[after] - c))
    return Calendar(
        tuple(float(x) for x in opened[:count]), tuple(float(x) for x in due[:count]), tuple(slot), tuple(span)
    )


def _next(flags: Sequence[bool]) -> list[int]:
    """The first place at or after each that is set; the length where there is none."""
    out, found = [len(flags)] * len(flags), len(flags)
    for c in range(len(flags) - 1, -1, -1):
        if flags[c]:
            found = c
        out[c] = found
    return out


def _places(first: date, holidays: Sequence[date], cycle: int) -> list[int]:
    """Places of the holidays after `first`; where a week has five places, its other days have none."""
    found = []
    for day in holidays:
        days = (day - first).days
        if days < 0 or day.weekday() >= cycle:
            continue
        if cycle == len(WEEKDAYS):
            found.append(days)
        else:
            weeks, rest = divmod(days + first.weekday(), len(WEEKDAYS))
            found.append(weeks * cycle + rest - first.weekday())
    return found
