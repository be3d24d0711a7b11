"""When orders may be placed and when they arrive: weekdays, holidays, every so many periods.

An order of period c arrives on the first delivery day at or after c + lead time. Orders do not cross: a later order
never arrives before an earlier one, and orders for the same day are added. An order is placed where all that is given
allows it: every so many periods, on an order day, and not on a holiday. Nothing is made up for: where a review period
is a holiday or no order day, the next order is placed in the next review period.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import Literal, NamedTuple

from ucsearch.errors import InputError

__all__ = ["WEEKDAYS", "Calendar", "CalendarRules", "Period", "calendar_of", "date_of", "weekday_flags"]

Period = Literal["day", "weekday", "week", "month", "any"]
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_WAIT = 370  # periods without an order day or a delivery day
_LENGTH = 64  # places of a calendar with holidays, where nobody says more
_MONDAY = date(2024, 1, 1)


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
        passed, ahead = -1, -1
        while passed < count:
            ahead += 1
            passed += self.due[(place + ahead) % len(self.due)] != 0.0
        return ahead

    @property
    def least_depth(self) -> int:
        """Periods that reach one period past the arrival of the second order day from now."""
        count, depth = len(self.open), 2
        for c in range(count):
            if self.open[c]:
                after = next(k for k in range(1, _LONGEST_WAIT) if self.open[(c + k) % count])
                depth = max(depth, after + self.arrival((c + after) % count) + 2)
        return depth


def weekday_flags(field: str, days: Sequence[str], count: int) -> tuple[bool, ...]:
    """(count,) which weekdays are named, Monday first; all where none is. Three letters name a day too."""
    if isinstance(days, str):
        days = (days,)
    flags = [not days] * count
    for i, day in enumerate(days):
        places = [k for k, name in enumerate(WEEKDAYS[:count]) if len(day) >= 3 and name.startswith(day.lower())]
        if len(places) != 1:
            raise InputError(field, repr(day), f"a weekday, {WEEKDAYS[0]} to {WEEKDAYS[count - 1]}", index=i)
        flags[places[0]] = True
    return tuple(flags)


class CalendarRules(NamedTuple):
    """What is said of the days on which orders are placed and arrive."""

    order_days: tuple[str, ...] = ()
    delivery_days: tuple[str, ...] = ()
    review_periods: int = 1
    review_start: str = ""
    holidays: tuple[str, ...] = ()
    period: Period = "any"
    length: int = 0  # periods that a calendar with holidays reaches; 0: 64

    @property
    def names_days(self) -> bool:
        """Whether weekdays or dates are named, not only every so many periods."""
        return bool(self.order_days or self.delivery_days or self.holidays)

    @property
    def cycle(self) -> int:
        """Periods after which the calendar repeats, holidays aside."""
        by_week = bool(self.order_days or self.delivery_days)
        return lcm(self.review_periods, _days_a_week(self.period)) if by_week else self.review_periods

    def check(self) -> None:
        """Refuse dates that are none, and days that a period or a review period cannot be counted by."""
        if self.names_days and self.period not in ("day", "weekday"):
            raise InputError("period", self.period, "'day' or 'weekday', because the calendar names days")
        if self.review_start:
            date_of("review_start", self.review_start)
        elif self.names_days and self.review_periods != 1:
            expected = "the date of a review period, because order_days, delivery_days or holidays are given"
            raise InputError("review_start", "nothing", expected)
        if self.cycle > _LONGEST_WAIT:
            weeks = f"a number that meets the same weekday within {_LONGEST_WAIT} periods, such as a multiple of "
            raise InputError("review_periods", self.review_periods, f"{weeks}{_days_a_week(self.period)}")

    def place(self, first_day: str) -> int | None:
        """The calendar's place of the day on which a plan begins; None where nothing says which."""
        if not first_day:
            return None
        first = date_of("first_day", first_day)
        if self.holidays:
            return 0
        if self.names_days:
            return self._place_of(first)
        if not self.review_start:
            return None
        passed = _periods_between(date_of("review_start", self.review_start), first, self.period)
        return None if passed is None else passed % self.review_periods

    def _place_of(self, day: date) -> int:
        """Of a calendar with weekdays, whose first place is the Monday of the week in which the reviews start."""
        start = date_of("review_start", self.review_start) if self.review_periods != 1 else _MONDAY
        passed = _periods_between(start - timedelta(days=start.weekday()), day, self.period)
        return (passed or 0) % self.cycle

    def calendar(self, lead: int, first_day: str = "") -> Calendar:
        """The calendar of orders with a lead time. With holidays it begins on `first_day`, and does not repeat."""
        return _calendar(self, lead, first_day if self.holidays else "")


@lru_cache(maxsize=256)
def _calendar(rules: CalendarRules, lead: int, first_day: str) -> Calendar:
    if not rules.names_days:
        count = rules.review_periods
        return calendar_of([c == 0 for c in range(count)], [True] * count, lead)
    week, cycle = _days_a_week(rules.period), rules.cycle
    order_days = weekday_flags("order_days", rules.order_days, week)
    delivery_days = weekday_flags("delivery_days", rules.delivery_days, week)
    review = 0 if rules.review_periods == 1 else rules._place_of(date_of("review_start", rules.review_start))
    opened = [order_days[c % week] and (c - review) % rules.review_periods == 0 for c in range(cycle)]
    due = [delivery_days[c % week] for c in range(cycle)]
    if not rules.holidays:
        return calendar_of(opened, due, lead)
    first = date_of("first_day", first_day) if first_day else _MONDAY
    holidays = [date_of(f"holidays[{i}]", text) for i, text in enumerate(rules.holidays)]
    closed = [
        _periods_between(first, day, rules.period) or 0 for day in holidays if day >= first and day.weekday() < week
    ]
    return calendar_of(opened, due, lead, rules._place_of(first), closed, rules.length or _LENGTH)


def calendar_of(
    order_days: Sequence[bool], delivery_days: Sequence[bool], lead: int,
    begin: int = 0, closed: Sequence[int] = (), length: int = 0,
) -> Calendar:  # fmt: skip
    """The calendar of a cycle of days, of which both sequences have one flag a day. With a `length` it does not repeat:
    it has so many places from the place `begin` of the cycle on, and nothing happens at its places `closed`."""
    cycle, shut = len(order_days), frozenset(closed)
    count = length or cycle
    total = count + 2 * _LONGEST_WAIT
    opened = [order_days[(begin + c) % cycle] and c not in shut for c in range(total)]
    due = [delivery_days[(begin + c) % cycle] and c not in shut for c in range(total)]
    next_due = _next(due)
    next_open = _next(opened)
    before = [0, *accumulate(due)]  # delivery days before each place
    arrive = [next_due[min(c + lead, total - 1)] for c in range(total)]
    slot, span = [], []
    for c in range(count):
        after = next_open[c + 1]
        if not (c <= arrive[c] < total and after < total and arrive[after] < total):
            expected = "days on which an order can be placed, and days on which it can arrive"
            raise InputError("order_days, delivery_days, review_periods", "no such day within a year", expected)
        slot.append(float(before[arrive[c]] - before[c]))
        span.append(float(arrive[after] - c))
    return Calendar(
        tuple(float(x) for x in opened[:count]), tuple(float(x) for x in due[:count]), tuple(slot), tuple(span)
    )


def _next(flags: Sequence[bool]) -> list[int]:
    """The first place at or after each that is set; the length where there is none."""
    places, ahead = [len(flags)] * len(flags), len(flags)
    for c in range(len(flags) - 1, -1, -1):
        if flags[c]:
            ahead = c
        places[c] = ahead
    return places


def _days_a_week(period: str) -> int:
    return 5 if period == "weekday" else 7


def date_of(field: str, text: str) -> date:
    """The date that a field says, whatever follows its ten characters."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        raise InputError(field, repr(text), "a date such as '2024-05-20'") from None


def _periods_between(first: date, second: date, period: str) -> int | None:
    """Periods from one date to another; None where a period has no length that is known."""
    days = (second - first).days
    if period == "day":
        return days
    if period == "week":
        return days // 7
    if period == "month":
        return 12 * (second.year - first.year) + second.month - first.month
    if period == "weekday":
        weeks = (days + first.weekday()) // 7
        return 5 * weeks + min(second.weekday(), 5) - min(first.weekday(), 5)
    return None
