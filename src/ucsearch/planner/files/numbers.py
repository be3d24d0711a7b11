"""Numbers and dates as people write them: decimal commas, thousands marks, 20.05.2024, offsets from UTC.

Nothing is guessed. Where a text can be read in two ways (1,234 or 05/06/2024) it is no number or date until the
settings say how it is meant.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError

__all__ = [
    "MISSING",
    "DateOrder",
    "Decimal",
    "date_words",
    "number_words",
    "offset_of",
    "parse_dates",
    "parse_numbers",
    "read_number",
    "sniff_decimal",
    "sniff_order",
]

Floats = NDArray[np.float64]
Decimal = Literal[".", ","]
DateOrder = Literal["auto", "dmy", "mdy"]

MISSING = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "-", "--", "\u2013", "\u2014", ".", "?", "#n/a", "#na", "#nv", "(null)"}
)
_GROUP = "[ \u00a0\u202f\u2009'\u2019]"  # thousands marks of some countries
_GROUPED = re.compile(rf"[+-]?\d{{1,3}}(?:{_GROUP}\d{{3}})+(?:[.,]\d*)?")
_MARKS = str.maketrans("", "", "\u00a0\u202f\u2009 '\u2019")
_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_BEHIND = re.compile(r"(\d[\d.,]*)-|\((\d[\d.,]*)\)")  # 12,50- and (12.50): below 0, as ledgers write it
_POINTED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")  # 1.234 is 1234 in some countries
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[T ]+(.+))?")
_SLASHED = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?:[T ]+(.+))?")
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?:[T ]+(.+))?")
_NAMED = re.compile(  # 25-Feb-2024, 25 February 2024, Feb 25, 2024, Feb 2024
    r"(?:(?P<day>\d{1,2})[ .-]+)?(?P<month>[^\W\d_]{3,10})\.?(?:[ -]+(?P<later>\d{1,2}),)?[ -]+(?P<year>\d{4})"
    r"(?:,?[T ]+(?P<clock>\d.*))?"
)
_NAMES = {  # of months, in order
    "en": "january february march april may june july august september october november december",
    "de": "januar februar marz april mai juni juli august september oktober november dezember",
    "fr": "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
}
# Whole names and their first three letters, without accents; "jui" alone could be two months in French.
_MONTH_OF = {
    word: number
    for names in _NAMES.values()
    for number, name in enumerate(names.split(), 1)
    for word in (name, name[:3])
    if word != "jui"
} | {"sept": 9, "mrz": 3, "juil": 7, "maa": 3, "mrt": 3, "aou": 8}
_WEEK = re.compile(r"(\d{4})-?W(\d{2})(?:-?([1-7]))?")
_SAID_WEEK = re.compile(  # KW 21/2024, W21-2024, CW21 2024, 2024 KW21, 2024/W21
    r"(?:KW|CW|WK|W|week)[ .]?(?P<week>\d{1,2})[ ./-]+(?P<year>\d{4})|"
    r"(?P<first>\d{4})[ ./-]*(?:KW|CW|WK|W|week)[ .]?(?P<then>\d{1,2})",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(\d{1,2})((?::\d\d){1,2}(?:\.\d+)?)\s*([AaPp][Mm])?")
# Signs of currencies, per cent and units around a number: 5,50 \u20ac, $3, 12%, 7 pcs
_UNIT = re.compile(r"([^\d\s.,+()'-]{1,6})\s*[+-]?\d[\d.,'\u2019]*|[+-]?\d[\d.,'\u2019]*\s*([^\d\s.,+()'-]{1,6})")
_MONTHS = 12
_SHEET = np.datetime64("1899-12-30", "D")  # day 0 of spreadsheets
_NEVER = np.datetime64("NaT", "s")


def sniff_decimal(pieces: Iterable[Sequence[str]], delimiter: str) -> Decimal | None:
    """How a file writes decimals, from its lines below the header; None where its marks may be either decimals or
    thousands marks."""
    found = _Marks()
    for lines in pieces:
        text = "".join(lines)
        if delimiter == ",":
            found.quoted(text)
        else:
            found.bare(text, delimiter)
        if found.sure is not None:
            return found.sure
    return None if found.doubtful else "."


class _Marks:
    """What has been seen of a file's numbers."""

    def __init__(self) -> None:
        self.sure: Decimal | None = None
        self.doubtful = False
        self._plain = False  # some point can only be a decimal

    def quoted(self, text: str) -> None:
        """Commas are between cells, so numbers with one are in quotes."""
        if '"' not in text:
            return
        found = _QUOTED.findall(text)
        if not all(_THOUSANDS.fullmatch(x) for x in found):
            self.sure = ","
        elif any("." in x or x.count(",") > 1 for x in found):
            self.sure = "."
        self.doubtful |= bool(found)

    def bare(self, text: str, delimiter: str) -> None:
        for number in (x.translate(_MARKS) for x in _BARE.findall(text)):
            # Semicolons stand where commas are decimals; there a point may be a thousands mark.
            if delimiter == ";" or not _THOUSANDS.fullmatch(number):
                self.sure = ","
                return
            if "." in number or number.count(",") > 1:
                self.sure = "."
                return
            self.doubtful = True
        if delimiter != ";" or self._plain:
            return
        found = [x for x in _PARTED.findall(text) if not _DOTTED.fullmatch(x)]
        if any(not _POINTED.fullmatch(x) for x in found):
            self._plain, self.doubtful = True, False
            return
        if any(x.count(".") > 1 for x in found):
            self.sure = ","
        self.doubtful |= bool(found)


_QUOTED = re.compile(r'"\s*([+-]?\d[\d.]*(?:,\d+)+(?:\.\d+)?)\s*"')
_BARE = re.compile(rf"(?:^|[\"\t;|])\s*([+-]?\d(?:[\d.]|{_GROUP})*,\d[\d.,]*)", re.MULTILINE)
_PARTED = re.compile(r"(?:^|;)[ \"]*([+-]?\d+(?:\.\d+)+)[ \"]*(?=;|\r|\n|$)", re.MULTILINE)


def parse_numbers(texts: list[str], decimal: Decimal | None) -> tuple[Floats, dict[int, str]]:
    """(n,) values, NaN where there is none, and by index the texts that are no numbers (NaN too)."""
    if decimal == ".":
        try:
            return np.array(texts, dtype=np.str_).astype(np.float64) if texts else np.zeros(0), {}
        except ValueError:
            pass
    values: Floats = np.full(len(texts), np.nan)
    bad: dict[int, str] = {}
    for i, text in enumerate(texts):
        if text.lower() in MISSING:
            continue
        try:
            values[i] = _number(text, decimal)
        except ValueError:
            bad[i] = text
    return values, bad


def read_number(text: str, field: str, decimal: Decimal | None) -> float | None:
    """One number as a person types it; None where it is none. Without `decimal`, a text that can be read in two ways
    is refused with both."""
    marks: tuple[Decimal, ...] = (".", ",") if decimal is None else (decimal,)
    readings: list[float] = []
    for mark in marks:
        try:
            readings.append(_number(text.strip(), mark))
        except ValueError:
            continue
    if len(set(readings)) > 1 and not re.match(r"[+-]?0\.", text.strip()) and all(map(np.isfinite, readings)):
        raise InputError(
            field, repr(text), f"a number that can be read in one way, not as {readings[0]:g} or {readings[1]:g}",
            hint="Write it without thousands marks, or say how numbers are written: columns.decimal of the settings.",
        )  # fmt: skip
    return readings[0] if readings else None


def _number(text: str, decimal: Decimal | None) -> float:
    if (below := _BEHIND.fullmatch(text)) is not None:
        text = f"-{below[1] or below[2]}"
    plain = text.translate(_MARKS) if _GROUPED.fullmatch(text) else text.replace("\u2212", "-")
    if decimal == ",":
        if _COMMA.fullmatch(plain):
            return float(plain.replace(".", "").replace(",", "."))
        if "." in plain:  # neither a thousands mark nor this file's decimal
            raise ValueError(text)
    elif "," in plain:
        if decimal is None or not _POINT.fullmatch(plain):
            raise ValueError(text)
        plain = plain.replace(",", "")
    elif decimal is None and _POINTED.fullmatch(plain):
        raise ValueError(text)
    return float(plain)


def sniff_order(texts: Iterable[str]) -> DateOrder:
    """What comes first in the dates with slashes of a column, day or month: some date of it can be read in one way
    only, and none in the other alone; else "auto", which refuses them."""
    day = month = False
    for text in texts:
        if (found := _SLASHED.fullmatch(text)) is not None:
            day |= int(found[1]) > _MONTHS
            month |= int(found[2]) > _MONTHS
    return "auto" if day == month else "dmy" if day else "mdy"


def parse_dates(texts: list[str], order: DateOrder, *, wall_clock: bool) -> Any:
    """(n,) datetime64[s], NaT where a text is no date. Times with an offset from UTC become UTC, or with `wall_clock`
    (days and longer) stay the local date that they name."""
    if all(_PLAIN.fullmatch(x) for x in texts):  # numpy alone would also take "now", or 20240520 for a year
        try:
            return np.array(texts, dtype="datetime64[s]")
        except (ValueError, TypeError):
            pass
    return np.array([_date(text, order, wall_clock) for text in texts], dtype="datetime64[s]")


_OFFSET = re.compile(r".*\d[T ].*?(?:(Z)|([+-]\d\d):?(\d\d)?)", re.IGNORECASE)


def offset_of(text: str) -> str:
    """The offset from UTC that a time is written with, such as "+02:00"; "" where it is written with none."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return ""
    return "+00:00" if found[1] else f"{found[2]}:{found[3] or '00'}"


def _date(text: str, order: DateOrder, wall_clock: bool) -> Any:
    day_first = order != "mdy"
    found = _DOTTED.fullmatch(text)
    if found is None and order != "auto":
        found = _SLASHED.fullmatch(text)
    if found is not None:
        first, second, year, clock = found.groups()
        day, month = (first, second) if day_first else (second, first)
        text = _iso(year, month, day, clock)
    elif (found := _YEAR_FIRST.fullmatch(text)) is not None:
        text = _iso(*found.groups())
    elif (found := _NAMED.fullmatch(text)) is not None:
        text = _iso(found["year"], _month_number(found["month"]), found["day"] or found["later"], found["clock"])
    elif (found := _WEEK.fullmatch(text)) is not None:
        return _week(*found.groups())
    elif (found := _SAID_WEEK.fullmatch(text)) is not None:
        return _week(found["year"] or found["first"], found["week"] or found["then"], None)
    if not re.match(r"\d{4}-\d{2}-\d{2}|\d{8}$", text):
        return _month(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _NEVER
    if moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None) if wall_clock else moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "s")


def _iso(year: str, month: str, day: str | None, clock: str | None) -> str:
    """A date as ISO writes it; a month alone where there is no day."""
    if not day:
        return f"{year}-{int(month):02d}"
    if clock and (found := _CLOCK.fullmatch(clock)) is not None:
        hour, rest, half = int(found[1]), found[2], (found[3] or "").lower()
        if half and not 1 <= hour <= 12:
            return ""
        hour = hour % 12 + 12 * (half == "pm") if half else hour
        clock = f"{hour:02d}{rest}"
    return f"{year}-{int(month):02d}-{int(day):02d}" + (f"T{clock}" if clock else "")


def _month_number(name: str) -> str:
    """By its name in one of some languages, or three letters of it; 0 for none."""
    plain = unicodedata.normalize("NFKD", name.lower())
    return str(_MONTH_OF.get("".join(c for c in plain if not unicodedata.combining(c)), 0))


def _week(year: str, week: str, day: str | None) -> Any:
    """An ISO week stands for its Monday."""
    try:
        return np.datetime64(date.fromisocalendar(int(year), int(week), int(day or 1)), "s")
    except ValueError:
        return _NEVER


def _month(text: str) -> Any:
    """2024-05, 05/2024 and what else numpy takes for a date without doubt."""
    if (found := re.fullmatch(r"(\d{1,2})[/.](\d{4})", text)) is not None:
        text = f"{found[2]}-{int(found[1]):02d}"
    if not re.fullmatch(r"\d{4}(-\d{2})?", text):
        return _NEVER
    try:
        return np.datetime64(text, "s")
    except ValueError:
        return _NEVER


def date_words(seen: str, order: DateOrder = "auto") -> str:
    """What was expected in place of a text that is no date."""
    usual = "a date such as 2024-05-20"
    if re.fullmatch(r"[34]\d{4}([.,]\d+)?", seen):
        day = _SHEET + np.timedelta64(int(seen[:5]), "D")
        return f"{usual} (a spreadsheet counts days so: {seen} is {day}; give the column a date format before saving)"
    if re.fullmatch(r"\d{6}", seen):
        return f"{usual}; a month as {seen[:4]}-05, a week as {seen[:4]}-W05"
    if re.fullmatch(r"\d{1,2}([./-])(\d{1,2}|[A-Za-z]{3})\1\d\d( .*)?", seen):
        return f"{usual}, the year with four digits"
    if order == "auto" and _SLASHED.fullmatch(seen):
        return f"{usual}; columns.dates = 'dmy' or 'mdy' says what comes first here"
    return f"{usual} or 20.05.2024"


def number_words(seen: str, decimal: Decimal | None) -> str:
    """What was expected in place of a text that is no number."""
    if decimal is None and (_THOUSANDS.fullmatch(seen) or _POINTED.fullmatch(seen)):
        return "a number that can be read in one way; columns.decimal = ',' or '.' says how it is meant"
    if seen.lower() in MISSING and seen:
        return "a number, or no row"
    if (unit := _UNIT.fullmatch(seen)) is not None:
        return f"a number without {unit[1] or unit[2]!r}: format the column as a number before saving"
    return "a number"
