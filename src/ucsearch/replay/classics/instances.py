"""Named instances: the lost-sales systems of Zipkin (2008).

"Old and new methods for lost-sales inventory systems", Operations Research 56(5), 1256–1263, §6: demand per
period Poisson or geometric with mean 5, h = 1, p in {4, 9, 19, 39}, L in {1, 2, 3, 4}. The published optimal
average costs have two decimals; where none is on record here the field is None, and the table prints what
value iteration finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ucsearch.errors import InputError
from ucsearch.replay.classics.demand import geometric, poisson
from ucsearch.replay.classics.lost_sales import LostSales

__all__ = ["LEAD_TIMES", "PENALTIES", "Instance", "load_instance", "zipkin_instances"]

LEAD_TIMES = (1, 2, 3, 4)
PENALTIES = (4, 9, 19, 39)
_MEAN = 5.0

# Optimal average costs for L = 1, 2, … as published.
_PUBLISHED: dict[tuple[str, int], tuple[float, ...]] = {
    ("poisson", 4): (4.04, 4.40, 4.60, 4.73),
    ("poisson", 9): (5.44, 6.09, 6.53, 6.84),
    ("poisson", 19): (6.68, 7.66, 8.36, 8.89),
    ("poisson", 39): (7.84, 9.11, 10.04, 10.79),
    ("geometric", 4): (9.82, 10.24),
    ("geometric", 9): (14.51, 15.50),
}


@dataclass(frozen=True)
class Instance:
    """One system and what is known of it."""

    name: str  # such as "zipkin-poisson-p4-L2"
    family: Literal["poisson", "geometric"]  # demand, mean 5
    penalty_cost: int  # p; h is 1
    lead_time: int  # periods
    published: float | None  # optimal average cost, two decimals

    def model(self) -> LostSales:
        """The system itself."""
        demand = poisson(_MEAN) if self.family == "poisson" else geometric(_MEAN)
        return LostSales(demand, self.lead_time, 1.0, float(self.penalty_cost))


def zipkin_instances(family: Literal["poisson", "geometric", "all"] = "all") -> tuple[Instance, ...]:
    """The instances, Poisson first, by penalty, then by lead time.

    Example
    -------
    >>> len(zipkin_instances()), zipkin_instances("poisson")[1]
    (32, Instance(name='zipkin-poisson-p4-L2', family='poisson', penalty_cost=4, lead_time=2, published=4.4))
    """
    if family not in ("poisson", "geometric", "all"):
        raise InputError("family", repr(family), "'poisson', 'geometric' or 'all'")
    families: tuple[Literal["poisson", "geometric"], ...] = ("poisson", "geometric")
    return tuple(
        Instance(f"zipkin-{name}-p{p}-L{lead}", name, p, lead, _published(name, p, lead))
        for name in families
        if family in (name, "all")
        for p in PENALTIES
        for lead in LEAD_TIMES
    )


def load_instance(name: str) -> Instance:
    """The instance of that name.

    Example
    -------
    >>> load_instance("zipkin-geometric-p9-L2").published
    15.5
    """
    for instance in zipkin_instances():
        if instance.name == name:
            return instance
    raise InputError("name", repr(name), "a name such as 'zipkin-poisson-p4-L2' or 'zipkin-geometric-p39-L4'")


def _published(family: str, penalty: int, lead_time: int) -> float | None:
    values = _PUBLISHED.get((family, penalty), ())
    return values[lead_time - 1] if lead_time <= len(values) else None
