"""The law of an uncertain lead time, and what has to be drawn every period so that orders do not cross.

P(L = l) is the law of the lead time. Every period draws X, independent of everything else, and all orders of age X or
more arrive: P(X <= l) = P(L = l) / P(L >= l), the hazard at l. So hazards must not fall with l.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ucsearch.errors import InputError
from ucsearch.tasks.checks import number, whole

__all__ = ["Shares", "arrivals", "draws", "lead_time_shares", "table_words"]

Shares = tuple[tuple[int, float], ...]
LONGEST = 12  # periods
_WHOLE = 1e-6  # of what shares add up to, and of what a hazard may fall by: tables are typed with few digits
_DIGITS = 4  # of a table that is proposed


def lead_time_shares(field: str, value: Any) -> Shares:
    """Lead times with their probabilities, ascending, from a table such as {2: 0.7, 3: 0.3} or its pairs."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    table: dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(field, repr(value), "a probability for each lead time, such as {2 = 0.7, 3 = 0.3}")
        name, share = pair
        text = str(name).strip()
        lead = int(text) if text.isdecimal() else name
        whole(field, lead, 0, LONGEST)
        if lead in table:
            raise InputError(field, f"{lead} twice", "each lead time once")
        table[lead] = number(f"{field}[{lead}]", share, 0.0, 1.0)
    shares = tuple((lead, share) for lead, share in sorted(table.items()) if share > 0.0)
    total = math.fsum(share for _, share in shares)
    if not abs(total - 1.0) <= _WHOLE:
        raise InputError(field, f"probabilities that add up to {total:g}", "1 in sum")
    _check_hazards(field, shares)
    return shares


def _check_hazards(field: str, shares: Shares) -> None:
    hazards = _hazards(shares)
    for (earlier, a), (later, b) in pairwise(hazards):
        if b < a - _WHOLE:
            raise InputError(
                field, f"{table_words(shares)}, under which orders cross at {later}: what has waited {later} periods "
                f"arrives with probability {b:.4g}, what has waited {earlier} with {a:.4g}",
                "an order to be the likelier to arrive the longer it has waited",
                hint=f"The nearest such table is {table_words(_nearest(hazards))}.",
            )  # fmt: skip


def _hazards(shares: Shares) -> list[tuple[int, float]]:
    """The probability that an order arrives once it is so old, from the shortest lead time to the longest."""
    table, waiting, hazards = dict(shares), math.fsum(share for _, share in shares), []
    last = shares[-1][0]
    for lead in range(shares[0][0], last + 1):
        share = table.get(lead, 0.0)
        hazards.append((lead, 1.0 if lead == last else share / waiting))
        waiting -= share
    return hazards


def _nearest(hazards: list[tuple[int, float]]) -> Shares:
    """The likeliest table whose hazards do not fall: neighbours that fall are pooled, each by how often it counts."""
    alive, blocks = 1.0, list[list[float]]()  # weight, hazard, places
    for _, hazard in hazards:
        blocks.append([alive, hazard, 1.0])
        alive *= 1.0 - hazard
        while len(blocks) > 1 and blocks[-1][1] < blocks[-2][1]:
            weight, own, places = blocks.pop()
            block = blocks[-1]
            total = block[0] + weight
            blocks[-1] = [total, (block[0] * block[1] + weight * own) / total, block[2] + places]
    pooled = [block[1] for block in blocks for _ in range(int(block[2]))]
    step, left, before, found = 10**_DIGITS, 10**_DIGITS, 0.0, []
    for (lead, _), hazard in zip(hazards, pooled, strict=True):
        last = lead == hazards[-1][0]
        share = left if last else min(left, math.ceil(left * max(hazard, before) - 1e-9))  # rounded so as not to fall
        before = share / left if left else 1.0
        left -= share
        found.append((lead, share / step))
    return tuple(pair for pair in found if pair[1] > 0.0)


def table_words(shares: Shares) -> str:
    """As in settings: {2 = 0.7, 3 = 0.3}."""
    return "{" + ", ".join(f"{lead} = {share:g}" for lead, share in shares) + "}"


def draws(shares: Shares) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values and probabilities of what is drawn every period: orders of that age or more arrive."""
    values, probabilities, before = [], [], 0.0
    for lead, hazard in _hazards(shares):
        if hazard > before:
            values.append(float(lead))
            probabilities.append(hazard - before)
            before = hazard
    return tuple(values), tuple(probabilities)


def arrivals(shares: Shares, due: Sequence[float], place: int, age: int = 0) -> list[tuple[int, float]]:
    """Periods from a `place` of the calendar until an order arrives that is `age` periods old there, with their
    probabilities: nothing arrives where no delivery is `due`."""
    hazards = dict(_hazards(shares))
    last, arrivals_ahead, waiting, ahead = shares[-1][0], list[tuple[int, float]](), 1.0, 0
    while waiting > 1e-12:
        hazard = hazards.get(min(age + ahead, last), 0.0) if due[(place + ahead) % len(due)] else 0.0
        if hazard > 0.0:
            arrivals_ahead.append((ahead, waiting * hazard))
            waiting *= 1.0 - hazard
        ahead += 1
    return arrivals_ahead
