"""How a NamedTuple of floats and fixed-length tuples of floats lies in a flat float64 row.

Both engines and the records use the same order: fields as declared, tuples expanded in place. -0.0 becomes 0.0 on the
way in: records hold one zero, and rules that use `atan2` or `copysign` would see two.

Actions that are tuples of whole numbers are packed into one number each, which is what arrays and kernels hold of them.
Every place of the tuple counts `base` of the next one: (3, 2) is 3 * base + 2. A packed number has fifteen digits at
most, so that nothing is rounded, and order is kept: packed numbers ascend as the tuples do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.rules.answers import as_number

__all__ = [
    "Layout",
    "as_finite",
    "base_of",
    "every_row",
    "is_named_tuple_type",
    "is_packable",
    "own_row",
    "own_rows",
    "pack",
    "packed",
    "refuse_rounded",
    "unpack",
    "unpacked",
    "with_one_zero",
]

Floats = NDArray[np.float64]
T = TypeVar("T")
D = TypeVar("D", bound=np.generic)
WHOLE = 2**53  # up to here a float holds every whole number
COUNT = 2**31  # below this a parameter that is annotated as `int`, a count or a place in a tuple
_WHOLE_HINT = "Floats hold every whole number up to 2**53 = 9007199254740992; use a larger unit."


def is_named_tuple_type(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


@overload
def own_row(rows: NDArray[Any], w: int) -> NDArray[Any]: ...
@overload
def own_row(rows: Sequence[T], w: int) -> T: ...
def own_row(rows: Any, w: int) -> Any:
    """Row w, or the one that all windows share."""
    return rows[w if len(rows) > 1 else 0]


def own_rows(rows: NDArray[D], windows: Any) -> NDArray[D]:
    """The rows of these windows (numbers or a slice), or the one that all windows share."""
    return rows if len(rows) == 1 else rows[windows]


def every_row(rows: NDArray[D], count: int) -> NDArray[D]:
    """A row for each of `count` windows: those there are, or the shared one again and again (read-only)."""
    return np.broadcast_to(rows, (count, *rows.shape[1:]))


@dataclass(frozen=True)
class Layout:
    """The shape of one NamedTuple type: `lengths[i]` is 0 for a float, else the tuple's length."""

    kind: type[Any]
    lengths: tuple[int, ...]
    whole: frozenset[int] = frozenset()  # numbers of the fields that hold whole numbers: parameters, annotated as int

    @classmethod
    def of_params(cls, value: Any, field: str) -> Layout:
        """As `of`; fields that are annotated `int` or `tuple[int, ...]` hold whole numbers."""
        layout = cls.of(value, field)
        kinds = getattr(layout.kind, "__annotations__", {})
        annotations = [_annotation(kinds.get(name)) for name in layout.kind._fields]
        whole = frozenset(i for i, text in enumerate(annotations) if text == "int" or text.startswith("tuple[int"))
        if not whole:
            return layout
        layout = cls(layout.kind, layout.lengths, whole)
        layout.flatten(value, field)
        return layout

    @classmethod
    def of(cls, value: Any, field: str) -> Layout:
        """Read the layout off an example; refuse what is not a NamedTuple of floats."""
        kind = type(value)
        if not is_named_tuple_type(kind):
            raise InputError(field, f"{kind.__name__} {value!r}", "a NamedTuple of floats or tuples of floats")
        if not kind._fields:
            raise InputError(field, "a NamedTuple without fields", "at least one field")
        lengths = []
        for name, item in zip(kind._fields, value, strict=True):
            if isinstance(item, tuple):
                if not item:
                    raise InputError(f"{field}.{name}", "an empty tuple", "a tuple with at least one float")
                lengths.append(len(item))
            else:
                lengths.append(0)
        layout = cls(kind, tuple(lengths))
        layout.flatten(value, field)
        return layout

    @property
    def size(self) -> int:
        """Number of floats in a flat row."""
        return sum(max(1, length) for length in self.lengths)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per float: `charge`, `pipeline[0]`, ..."""
        out: list[str] = []
        for name, length in zip(self.kind._fields, self.lengths, strict=True):
            out.extend([name] if length == 0 else [f"{name}[{i}]" for i in range(length)])
        return tuple(out)

    def coerced(self, value: Any) -> Any:
        """What `step` returned as a state of this kind: finite floats, 0.0 for -0.0. Raises where it is something
        else."""
        items: list[Any] = [x + 0.0 if type(x) is float and math.isfinite(x) else _item(x) for x in value]
        # An empty tuple is no number.
        if tuple([0 if type(x) is float else len(x) or -1 for x in items]) != self.lengths:
            raise ValueError("a state of another shape")
        return self.kind(*items)

    def flatten(self, value: Any, field: str) -> list[float]:
        """A flat row of finite floats, or an `InputError` naming the field at fault."""
        if not isinstance(value, tuple):
            raise InputError(field, repr(value), f"a {self.kind.__name__} with the fields {self.kind._fields}")
        if len(value) != len(self.lengths):
            raise InputError(field, f"{len(value)} fields", f"{len(self.lengths)} fields {self.kind._fields}")
        row: list[float] = []
        for name, length, item in zip(self.kind._fields, self.lengths, value, strict=True):
            if type(item) is float and length == 0 and math.isfinite(item):  # as a rule
                row.append(item + 0.0)
                continue
            if length == 0:
                row.append(_number(item, f"{field}.{name}", None))
                continue
            if not isinstance(item, tuple) or len(item) != length:
                raise InputError(f"{field}.{name}", repr(item), f"a tuple of {length} floats")
            if all(type(x) is float and math.isfinite(x) for x in item):
                row.extend(x + 0.0 for x in item)
                continue
            row.extend(_number(x, f"{field}.{name}", i) for i, x in enumerate(item))
        if self.whole:
            self._refuse_parts(np.array([row]), field)
        return row

    def build(self, row: Sequence[float]) -> Any:
        """The NamedTuple that a flat row stands for (no checks: rows come from us)."""
        items: list[Any] = []
        at = 0
        for length in self.lengths:
            if length == 0:
                items.append(row[at])
                at += 1
            else:
                items.append(tuple(row[at : at + length]))
                at += length
        for i in self.whole:
            items[i] = tuple(map(int, items[i])) if self.lengths[i] else int(items[i])
        return self.kind(*items)

    def _refuse_parts(self, rows: Floats, field: str) -> None:
        """Fields of whole numbers hold nothing else."""
        at = 0
        for i, length in enumerate(self.lengths):
            if i in self.whole:
                for column in range(at, at + (length or 1)):
                    bad = np.flatnonzero(
                        (rows[:, column] != np.floor(rows[:, column])) | ~(abs(rows[:, column]) < COUNT)
                    )
                    if len(bad):
                        w, name = int(bad[0]), f"{field}.{self.names[column]}"
                        expected = "a whole number below 2**31, because the field is annotated as int"
                        raise InputError(name, float(rows[w, column]), expected, index=w if len(rows) > 1 else None)
            at += length or 1

    def columns(self, rows: Floats) -> Any:
        """Flat rows (N, size) as one NamedTuple of arrays: (N,) for a float, (N, length) for a tuple."""
        items, at = [], 0
        for length in self.lengths:
            items.append(rows[:, at : at + length] if length else rows[:, at])
            at += length or 1
        return self.kind(*items)

    def rows(self, values: Any, field: str) -> Floats:
        """A (W, size) array from an array of rows, a sequence of NamedTuples or a NamedTuple of arrays."""
        if isinstance(values, np.ndarray) and not is_named_tuple_type(type(values)):
            array = as_finite(values, field)
            if array.ndim != 2 or array.shape[1] != self.size:
                raise InputError(field, f"shape {array.shape}", f"shape (W, {self.size}) in the order {self.names}")
            if self.whole:
                self._refuse_parts(array, field)
            # A copy: who steps the same array on would change what was decided on, after the decision.
            return array + 0.0
        if is_named_tuple_type(type(values)):
            rows = self._rows_of_arrays(values, field)
            if self.whole:
                self._refuse_parts(rows, field)
            return rows
        if isinstance(values, Iterable):
            flat = [self.flatten(v, f"{field}[{i}]") for i, v in enumerate(values)]
            if not flat:
                raise InputError(field, "no windows", "at least one window")
            return np.array(flat, dtype=np.float64)
        raise InputError(field, type(values).__name__, f"an array (W, {self.size}) or a {self.kind.__name__} of arrays")

    def _rows_of_arrays(self, values: Any, field: str) -> Floats:
        quick = self._quick_rows(values)
        if quick is not None:
            return quick
        columns: list[Floats] = []
        for name, length, item in zip(self.kind._fields, self.lengths, values, strict=True):
            if length == 0:
                columns.append(np.atleast_1d(as_finite(item, f"{field}.{name}")))
                continue
            if isinstance(item, tuple):
                parts = [np.atleast_1d(as_finite(x, f"{field}.{name}[{i}]")) for i, x in enumerate(item)]
            else:
                array = as_finite(item, f"{field}.{name}")
                parts = [array[..., i] for i in range(array.shape[-1])] if array.ndim == 2 else []
            if len(parts) != length:
                raise InputError(f"{field}.{name}", f"{len(parts)} columns", f"{length} columns")
            columns.extend(parts)
        count = max(c.shape[0] for c in columns)
        for name, column in zip(self.names, columns, strict=True):
            if column.ndim != 1 or column.shape[0] not in (1, count):
                raise InputError(f"{field}.{name}", f"shape {column.shape}", f"shape ({count},)")
        return np.column_stack([np.broadcast_to(c, (count,)) for c in columns]).astype(np.float64) + 0.0

    def _quick_rows(self, values: Any) -> Floats | None:
        """The same where all fields are plain floats and arrays of finite ones, of one length; None where one is not.
        A single decision has dozens of numbers: looked at one by one they take longer than its search."""
        columns: list[Any] = []
        for length, item in zip(self.lengths, values, strict=True):
            if length and type(item) is np.ndarray and item.ndim == 2:
                parts: Sequence[Any] = tuple(item.T)
            else:
                parts = item if isinstance(item, tuple) else (item,)
            if len(parts) != (length or 1):
                return None
            columns.extend(parts)
        arrays = [c for c in columns if type(c) is not float]
        if not arrays or not all(type(c) is np.ndarray and c.dtype == np.float64 and c.ndim == 1 for c in arrays):
            return None
        if not all(c.shape == arrays[0].shape for c in arrays):
            return None
        if len(arrays[0]) == 1:
            rows = np.array([[c if type(c) is float else c.item() for c in columns]])
        else:
            rows = np.empty((len(arrays[0]), len(columns)))
            for i, column in enumerate(columns):
                rows[:, i] = column
        return rows + 0.0 if bool(np.isfinite(rows).all()) else None


def as_finite(values: Any, field: str, *, allow_nan: bool = False) -> Floats:
    """A float64 array without NaN or infinity (`allow_nan`: NaN marks what is unavailable). Texts, times and complex
    numbers are no numbers here, and behind a mask there is none."""
    parts = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise InputError(field, "a masked array", "an array without a mask", hint="Fill or leave out what is missing.")
    try:
        original = np.asarray(values)
        if original.dtype.kind not in "fiubO" or (original.dtype.kind == "O" and any(map(_is_text, original.flat))):
            raise TypeError(f"of {original.dtype.name}")
        array = np.ascontiguousarray(original, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(field, f"{type(values).__name__} ({error})", "numbers") from None
    _refuse_any_rounded(values, original, array, field)
    good = np.isfinite(array)
    if allow_nan:
        good |= np.isnan(array)
    if not good.all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        expected = "a finite number or NaN" if allow_nan else "a finite number"
        raise InputError(field, float(array[index]), expected, index=index or None)
    return array


def _refuse_any_rounded(values: Any, original: NDArray[Any], array: Floats, field: str) -> None:
    """Whole numbers that a float would round are refused. Only large numbers are looked at one by one."""
    if original.dtype.kind == "b" or (original.dtype.kind == "f" and isinstance(values, np.ndarray)):
        return
    for flat in np.flatnonzero(~(np.abs(array.ravel()) < WHOLE)).tolist():
        index = tuple(int(i) for i in np.unravel_index(flat, array.shape))
        item = original.item(flat) if original.dtype.kind != "f" else _nested(values, index)
        refuse_rounded(item, field, index or None)


def _nested(values: Any, index: tuple[int, ...]) -> Any:
    """The number as it was given: NumPy makes floats of a list of whole numbers and others."""
    try:
        for i in index:
            values = values[i]
    except (TypeError, LookupError):
        return None
    return values


def refuse_rounded(item: Any, field: str, index: Any = None) -> None:
    """Raise where a float would hold another whole number than the one given."""
    if isinstance(item, int | np.integer) and int(float(item)) != int(item):
        expected = "a whole number that a float holds exactly"
        raise InputError(field, int(item), expected, index=index, hint=_WHOLE_HINT)


def with_one_zero(value: Any) -> Any:
    """A NamedTuple with 0.0 in place of -0.0. What is no float stays as it is, and so does what is no NamedTuple."""
    if not is_named_tuple_type(type(value)):
        return value
    return type(value)(*(tuple(map(_one_zero, x)) if isinstance(x, tuple) else _one_zero(x) for x in value))


def _one_zero(item: Any) -> Any:
    return item + 0.0 if isinstance(item, float) else item


def _item(x: Any) -> Any:
    """A field of a state: a number, or a tuple of numbers."""
    if not isinstance(x, tuple):
        return as_number(x) + 0.0
    return tuple([v + 0.0 if type(v) is float and math.isfinite(v) else as_number(v) + 0.0 for v in x])


def _annotation(kind: Any) -> str:
    """As it is written, whether or not annotations are kept as text (`NamedTuple` wraps texts)."""
    return str(getattr(kind, "__forward_arg__", None) or (kind.__name__ if type(kind) is type else kind))


def _is_text(item: Any) -> bool:
    return isinstance(item, str | bytes | bytearray)


def _number(item: Any, field: str, index: int | None) -> float:
    try:
        if _is_text(item):
            raise TypeError("a text")
        number = float(item)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, repr(item), "a float", index=index) from None
    if not math.isfinite(number):
        raise InputError(field, number, "a finite number", index=index)
    refuse_rounded(item, field, index)
    return number + 0.0


# -------------------------------------------------------------------- actions that are tuples of whole numbers

_DIGITS = 15  # of all places together


def base_of(width: int) -> float:
    """What a place of a tuple of so many numbers stays below."""
    return float(10 ** (_DIGITS // width))


def is_packable(tuples: Floats) -> bool:
    """Whether all numbers of tuples (..., width) are whole, not negative, and below the base."""
    return bool(((tuples == np.floor(tuples)) & (tuples >= 0.0) & (tuples < base_of(tuples.shape[-1]))).all())


def packed(tuples: Floats) -> Floats:
    """(...,) numbers of tuples (..., width); NaN for one with a NaN."""
    base, total = base_of(tuples.shape[-1]), np.zeros(tuples.shape[:-1])
    for k in range(tuples.shape[-1]):
        total = total * base + tuples[..., k]
    return total


def unpacked(numbers: Floats, width: int) -> Floats:
    """(..., width) tuples of numbers (...,)."""
    base, rest, places = base_of(width), np.asarray(numbers, dtype=np.float64), []
    for _ in range(width):
        above = np.floor(rest / base)
        places.append(rest - above * base)
        rest = above
    return np.stack(places[::-1], axis=-1)


def unpack(number: float, width: int) -> tuple[float, ...]:
    """The tuple of one number."""
    base, places = base_of(width), []
    for _ in range(width):
        above = math.floor(number / base) * 1.0
        places.append(number - above * base)
        number = above
    return tuple(places[::-1])


def pack(values: Sequence[float]) -> float:
    """The number of one tuple."""
    base, total = base_of(len(values)), 0.0
    for x in values:
        total = total * base + x
    return total
