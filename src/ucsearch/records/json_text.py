"""Canonical text of the values that records hold, by their exact types: the inner loop of every record.

Equal in every byte to `canonical` of what `as_value` makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical, float_text

__all__ = ["around", "json_text", "key_text", "list_text", "object_text", "value_text"]

_FLOATS_KEPT = 4096


def json_text(value: Any) -> str:
    return canonical(value).decode("utf-8")


def around(value: dict[str, Any], without: tuple[str, ...]) -> list[str]:
    """An object's text, cut where the values of these members stand. JSON's text holds no zero byte."""
    parts = [key_text(k) + ("\0" if k in without else json_text(value[k])) for k in sorted(value)]
    return f"{{{','.join(parts)}}}".split("\0")


@lru_cache(maxsize=1024)
def key_text(name: str) -> str:
    return encode_basestring(name) + ":"


def _float(x: float) -> str:
    """As `as_value` and `canonical` together write a float: null for NaN, text for the unbounded."""
    text = repr(x)
    if text[-2:] == ".0":
        return text[:-2] if x else "0"
    if "e" not in text and text[-1] not in "nf":
        return text
    if x != x:
        return "null"
    if math.isinf(x):
        return '"inf"' if x > 0 else '"-inf"'
    return float_text(x)


class _Floats(dict[float, str]):
    """Texts of floats: a record says the same few numbers many times, and writing one takes longer than finding it.
    Numbers that are equal have equal texts, -0.0 and 0.0 too; NaN is equal to nothing."""

    def __missing__(self, x: float) -> str:
        if x != x:
            return "null"
        text = repr(x)
        if "e" in text or text[-2:] == ".0" or text[-1] == "f":
            text = _float(x)
        if len(self) >= _FLOATS_KEPT:
            self.clear()
        self[x] = text
        return text


def list_text(values: Sequence[float]) -> str:
    # Only a whole number ends in ".0"; -0.0, exponents, nan and inf take the long way.
    joined = f",{','.join(map(repr, values))},".replace(".0,", ",")
    if "e" in joined or "n" in joined or ",-0," in joined:
        return f"[{','.join(map(_float, values))}]"
    return f"[{joined[1:-1]}]"


def object_text(values: dict[str, Any], keys: list[tuple[str, str]]) -> str:
    return f"{{{','.join([p + _TEXTS[type(v := values[k])](v) for k, p in keys])}}}"


def value_text(value: Any) -> str:
    return _TEXTS[type(value)](value)


def _int(value: int) -> str:
    return str(value) if -(2**53) <= value <= 2**53 else f'"{value}"'


def _dict(value: dict[str, Any]) -> str:
    return f"{{{','.join([key_text(k) + value_text(value[k]) for k in sorted(value)])}}}"


def _sequence(value: Sequence[Any]) -> str:
    return f"[{','.join([_TEXTS[type(v)](v) for v in value])}]"


def _rare(value: Any) -> str:
    """Words of an enumeration, numbers of NumPy, other sequences; anything else is refused."""
    if isinstance(value, str):
        return encode_basestring(str(getattr(value, "value", value)))
    if isinstance(value, float | np.floating):
        return _float(float(value))
    if isinstance(value, int | np.integer):
        return _int(int(value))
    if isinstance(value, Sequence):
        return _sequence(value)
    raise RecordError(f"cannot record a {type(value).__name__}")


class _Texts(dict[type, Callable[[Any], str]]):
    def __missing__(self, kind: type) -> Callable[[Any], str]:
        return _rare


# By exact type: this is the inner loop of every record.
_TEXTS = _Texts(
    {
        float: _Floats().__getitem__, int: _int, str: encode_basestring,
        bool: {True: "true", False: "false"}.__getitem__,
        type(None): lambda _: "null", dict: _dict, tuple: _sequence, list: _sequence,
    }
)  # fmt: skip
