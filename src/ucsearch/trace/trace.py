"""The class `Trace`: its constructors, what is declared about its outcomes, its hash, its file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.layout import as_finite, own_row, own_rows
from ucsearch.trace.law import (
    RATIO_STEPS,
    SNAP,
    Law,
    Laws,
    law_arrays,
    law_of,
    variance_ratios,
)
from ucsearch.trace.members import (
    ARRAYS,
    Pmf,
    check_arrays,
    check_weights,
    distribution_members,
    expanded,
    freeze,
    freeze_nodes,
    member_arrays,
    normal_members,
    plain_sum,
    quantile_members,
    score_arrays,
    shape_members,
    tree_order,
    uniform,
)

__all__ = ["Declared", "Trace", "join_traces"]


Floats = NDArray[np.float64]
Coupling = Literal["joint", "comonotone", "independent", "tree", "markov"]
Method = Literal["grid", "sobol", "sampled"]  # how marginals become members
COUPLINGS = ("joint", "comonotone", "independent", "tree", "markov")
_LAWS = ("independent", "tree", "markov")  # couplings that say what is learned when
MEMBERS_PER_BIN = 30  # fewer leave the shares between bins to chance
MOST_POINTS = 4_096  # blocks of a lattice
_MOST_BYTES = 1 << 30  # that any file may unpack to
_MOST_TIMES = 100  # its own size, which a larger one may unpack to


class Declared(NamedTuple):
    """What is said about members across steps, besides the coupling's name."""

    origin: str = ""  # the coupling of the members before an independent law was made of them; "" when none was
    unit: float | tuple[float, ...] = 0.0  # lattice spacing in outcome units, or one per window; 0 without a lattice
    points: int = 0  # blocks per step on the lattice; 0 without one
    bins: int = 0  # K of a markov law; 0 otherwise
    draws: tuple[tuple[float, float], ...] = ()  # values and probabilities of a last field that is drawn every step

    def written(self) -> dict[str, Any]:
        """What is said, and nothing else, as it enters hashes: units as hexadecimal text, which has one form."""
        declared = {name: value for name, value in self._asdict().items() if value}
        if self.draws:
            declared["draws"] = [[float(x).hex() for x in pair] for pair in self.draws]
        if isinstance(self.unit, tuple):
            return {**declared, "unit": [float(x).hex() for x in self.unit]}
        return {**declared, "unit": float(self.unit).hex()} if self.unit else declared

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Declared:
        """What `written` wrote."""
        unit = said.get("unit", "0x0p+0")
        read = tuple(map(float.fromhex, unit)) if isinstance(unit, list) else float.fromhex(unit)
        draws = tuple((float.fromhex(x), float.fromhex(p)) for x, p in said.get("draws", ()))
        return cls(**{**said, "unit": read, "draws": draws})

    def of_window(self, w: int) -> Declared:
        """What is declared about one window of a panel."""
        return self._replace(unit=self.unit[w]) if isinstance(self.unit, tuple) else self


_NOTHING = Declared()


@dataclass(frozen=True, eq=False)
class Trace:
    """A frozen forecast of one or many windows. Use the `from_*` constructors.

    `Trace(...)` itself takes what they would have made and refuses anything else. Arrays are read-only, also after
    pickling."""

    members: Floats  # (W, J, H, F); J is 0 in a trace of scores
    weights: Floats  # (W or 1, J), sum 1
    mean: Floats  # (W, H, F); NaN where a trace of scores has no outcomes
    q: Floats  # (W, H, m) action scores; m is 0 in a trace of members
    u: Floats  # (W, H, m) their uncertainties
    panel: bool  # False: one window, W = 1
    coupling: Coupling  # how members hang together across steps
    model: str = ""  # who made the forecast, for the record
    cutoff: tuple[str, ...] = ()  # last observed time, one for all windows or one each
    issued: tuple[str, ...] = ()  # when the forecast was made
    notes: tuple[str, ...] = field(default=())  # repairs and assumptions made on the way in
    declared: Declared = _NOTHING  # what makes a law of the outcomes out of the members
    node: NDArray[np.int64] | None = None  # (W, J, H) of a tree: members in one node are one until then

    def __post_init__(self) -> None:
        for name in ARRAYS:
            object.__setattr__(self, name, freeze(np.array(getattr(self, name), dtype=np.float64)))
        self.check()

    def check(self) -> None:
        """Refuse what no `from_*` constructor makes."""
        count = check_arrays(*(getattr(self, name) for name in ARRAYS))
        if not isinstance(self.panel, bool) or (not self.panel and count != 1):
            raise InputError("trace.panel", repr(self.panel), f"True or False, and True for {count} windows")
        if self.coupling not in COUPLINGS:
            raise InputError("trace.coupling", repr(self.coupling), f"one of {COUPLINGS}")
        check_declared(self.coupling, self.declared, self.members.shape, self.node is not None)
        if self.node is not None:
            _, _, nodes = tree_order(self.members, self.weights, self.node)
            if self.node.shape != nodes.shape or not bool((self.node == nodes).all()):
                raise InputError("trace.node", "other numbers", "nodes numbered by first appearance")
        for name in ("cutoff", "issued", "notes"):
            texts = getattr(self, name)
            if not isinstance(texts, tuple) or not all(isinstance(x, str) for x in texts):
                raise InputError(f"trace.{name}", repr(texts), "a tuple of texts")
            if name != "notes" and len(texts) not in (0, 1, count):
                raise InputError(f"trace.{name}", f"{len(texts)} times", f"none, 1 or {count}, one per window")
        if not isinstance(self.model, str):
            raise InputError("trace.model", repr(self.model), "a text")

    @classmethod
    def trusted(cls, *values: Any) -> Trace:
        """The trace of these fields, in their order, when we made them ourselves: nothing is checked or copied."""
        trace = cls.__new__(cls)
        trace.__dict__.update(zip(cls.__dataclass_fields__, values, strict=False))
        return trace

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (tuple(getattr(self, name) for name in self.__dataclass_fields__), self.hash)

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_members(
        cls,
        members: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        normalise: bool = False,
        sigma: ArrayLike | None = None,
        points: int = 3,
        fields: int | None = None,
        coupling: Coupling = "joint",
        node: ArrayLike | None = None,
        bins: int | None = None,
        model: str = "",
        cutoff: Any = None,
        issued: Any = None,
        notes: Sequence[str] = (),
    ) -> Trace:
        """A forecast from sample paths: an ensemble, a bootstrap, or drawn paths.

        Args:
            members: (J, H), with `fields` (J, H, F); of a panel (W, J, H) or (W, J, H, F), in units of the outcome.
            weights: (J,) or (W, J), with the sum 1; by default equal.
            normalise: divide the weights by their sum.
            sigma: each member's own standard deviation, shaped like the members (a heteroscedastic head). Every member
                is then expanded into `points` equally likely quantile points.
            points: of each member, with `sigma`.
            fields: numbers of an outcome, where it has several.
            coupling: what is known about outcomes across steps (docs/concepts/closed-loop.md).
            node: (J, H), with coupling "tree": members in one node have been one until then.
            bins: for each step, with coupling "markov".
            model: name of the forecaster, for the record.
            cutoff: last observed time: one for all windows, or one for each.
            issued: when the forecast was made: one for all windows, or one for each.
            notes: repairs and assumptions, for the record.

        Returns:
            A `Trace` whose members are sorted by their content.

        Raises:
            InputError: a shape, weight or value that is none; the message names the place.
        """
        array, panel = shape_members(as_finite(members, "trace.members"), fields)
        weight = check_weights(weights, array.shape[0], array.shape[1], normalise)
        if sigma is not None:
            array, weight, note = expanded(array, weight, sigma, np.shape(members), points, fields)
            notes = (*notes, note)
        return cls._of_members(array, weight, panel, coupling, model, cutoff, issued, notes, node, bins)

    @classmethod
    def from_mean(
        cls,
        mean: ArrayLike,
        std: ArrayLike,
        *,
        points: int = 9,
        method: Method = "grid",
        rng: np.random.Generator | None = None,
        fields: int | None = None,
        model: str = "",
        cutoff: Any = None,
        issued: Any = None,
    ) -> Trace:
        """A forecast from the mean and the standard deviation of each step, taken as normal.

        A "grid" of few points varies less than `std`: 7 % less with 9 points, 1 % less with 51.

        Args:
            mean: (H,) or (W, H), with `fields` (H, F) or (W, H, F).
            std: shaped like the mean.
            points: members to make.
            method: "grid" for one quantile at every step and of every field; "sobol" for quasi-random points or
                "sampled" for drawn ones, both independent across steps and fields.
            rng: a NumPy Generator, for "sobol" and "sampled".
            fields: numbers of an outcome, where it has several.
            model: name of the forecaster, for the record.
            cutoff: last observed time: one for all windows, or one for each.
            issued: when the forecast was made: one for all windows, or one for each.

        Returns:
            A `Trace` of `points` equally likely members.

        Raises:
            InputError: a shape or value that is none; no generator where one is needed.
        """
        array, panel = normal_members(mean, std, points, method, rng, fields)
        return cls._of_marginals(array, panel, method, model, cutoff, issued, (f"normal members by {method}",))

    @classmethod
    def from_distribution(
        cls,
        quantile: Callable[..., float] | None = None,
        *,
        pmf: Pmf | Sequence[Pmf] | None = None,
        horizon: int | None = None,
        points: int = 9,
        method: Method = "grid",
        rng: np.random.Generator | None = None,
        fields: int | None = None,
        model: str = "",
        cutoff: Any = None,
        issued: Any = None,
    ) -> Trace:
        """A forecast from a quantile function or from probabilities.

        With a pmf and "grid" the probabilities of every step are kept: members are quantiles with weights of their own.
        `declare("independent")` makes the law of independent steps out of them.

        Args:
            quantile: `(level, step) -> value`, with `fields` `(level, step, field) -> value`.
            pmf: in its place `(values, probabilities)`, the same at every step, or a list with one for each step. With
                `fields` values are vectors (K, F), whose fields stay together.
            horizon: steps; not needed with a list of pmfs.
            points: members to make; not used with a pmf and "grid".
            method: as in `from_mean`.
            rng: a NumPy Generator, for "sobol" and "sampled".
            fields: numbers of an outcome, where it has several.
            model: name of the forecaster, for the record.
            cutoff: last observed time: one for all windows, or one for each.
            issued: when the forecast was made: one for all windows, or one for each.

        Returns:
            A `Trace` of one window.

        Raises:
            InputError: both or neither of `quantile` and `pmf`; probabilities whose sum is not 1; a wrong horizon.
        """
        notes = (f"members by {method} of the given distribution",)
        array, weights = distribution_members(quantile, pmf, horizon, points, method, rng, fields)
        return cls._of_marginals(array[None], False, method, model, cutoff, issued, notes, weights)

    @classmethod
    def from_quantiles(
        cls,
        levels: ArrayLike,
        values: ArrayLike,
        *,
        points: int = 9,
        method: Method = "grid",
        rng: np.random.Generator | None = None,
        crossing: Literal["refuse", "sort"] = "refuse",
        fields: int | None = None,
        model: str = "",
        cutoff: Any = None,
        issued: Any = None,
    ) -> Trace:
        """A forecast from quantiles of each step. Between levels members interpolate; beyond the outer levels they stay
        at the outer value.

        Args:
            levels: (Q,) ascending, inside 0 to 1.
            values: (H, Q) or (W, H, Q), with `fields` (H, Q, F) or (W, H, Q, F).
            points: members to make.
            method: as in `from_mean`; so do fields hang together.
            rng: a NumPy Generator, for "sobol" and "sampled".
            crossing: "refuse" quantiles that cross, or "sort" and note them.
            fields: numbers of an outcome, where it has several.
            model: name of the forecaster, for the record.
            cutoff: last observed time: one for all windows, or one for each.
            issued: when the forecast was made: one for all windows, or one for each.

        Returns:
            A `Trace` of `points` equally likely members.

        Raises:
            InputError: a shape or value that is none, or quantiles that cross; the message names the place.
        """
        array, panel, mended = quantile_members(levels, values, points, method, rng, crossing, fields)
        notes = (f"members by {method} between the given quantiles", *mended)
        return cls._of_marginals(array, panel, method, model, cutoff, issued, notes)

    @classmethod
    def _of_marginals(
        cls, array: Floats, panel: bool, method: str, model: str, cutoff: Any, issued: Any, notes: Sequence[str],
        weights: Floats | None = None,
    ) -> Trace:  # fmt: skip
        coupling: Coupling = "comonotone" if method == "grid" else "independent"
        weight = uniform(array.shape[1]) if weights is None else weights[None]
        return cls._of_members(array, weight, panel, coupling, model, cutoff, issued, notes)

    @classmethod
    def from_scores(
        cls,
        q: ArrayLike,
        u: ArrayLike,
        outcomes: ArrayLike | None = None,
        *,
        model: str = "",
        cutoff: Any = None,
        issued: Any = None,
    ) -> Trace:
        """Scores of the actions in place of a forecast, for models that rate actions.

        Args:
            q: scores (H, m) or (W, H, m).
            u: their uncertainties, of the same shape.
            outcomes: (H,), (H, F) or (W, H, F), which transitions see. Without them they see NaN, so that a transition
                that reads one fails.
            model: name of the forecaster, for the record.
            cutoff: last observed time: one for all windows, or one for each.
            issued: when the forecast was made: one for all windows, or one for each.

        Returns:
            A `Trace` for mode "scores".

        Raises:
            InputError: shapes that do not fit, or a negative uncertainty.
        """
        score, spread, mean, panel = score_arrays(q, u, outcomes)
        count, horizon, width = mean.shape
        empty = np.zeros((count, 0, horizon, width))
        return cls.trusted(
            empty, np.zeros((1, 0)), freeze(mean + 0.0), freeze(score + 0.0), freeze(spread + 0.0), panel, "joint",
            model, as_times(cutoff, "trace.cutoff", count), as_times(issued, "trace.issued", count), (),
        )  # fmt: skip

    @classmethod
    def _of_members(
        cls, array: Floats, weights: Floats, panel: bool, coupling: Any, model: str, cutoff: Any, issued: Any,
        notes: Sequence[str], node: ArrayLike | None = None, bins: int | None = None,
    ) -> Trace:  # fmt: skip
        if coupling not in COUPLINGS:
            raise InputError("trace.coupling", repr(coupling), f"one of {COUPLINGS}")
        if array.size == 0:
            raise InputError("trace", f"shape {array.shape[:-1]}", "at least one window, member and step")
        declared = Declared(bins=0 if bins is None else bins)
        check_declared(coupling, declared, array.shape, node is not None)
        array, weights, mean, nodes, stood = member_arrays(array, weights, node)
        count, _, horizon, _ = array.shape
        none = np.zeros((count, horizon, 0))
        made = cls.trusted(
            freeze(array), freeze(weights), freeze(mean), none, none, panel, coupling, model,
            as_times(cutoff, "trace.cutoff", count), as_times(issued, "trace.issued", count), tuple(notes), declared,
            nodes,
        )  # fmt: skip
        if node is None:
            made.__dict__["stood"] = stood  # for `join_traces`; no part of the trace, and not saved with it
        return made

    # ---------------------------------------------------------------- the law of its outcomes

    def declare(self, coupling: Coupling, *, node: ArrayLike | None = None, bins: int | None = None) -> Trace:
        """The same members under another law of what is known when. What was declared before is forgotten.

        Args:
            coupling: "independent", "tree" with `node`, or "markov" with `bins`.
            node: (J, H) in the order of `members`.
            bins: for each step.

        Returns:
            A new `Trace`.

        Raises:
            InputError: a trace of scores, or nodes and bins that do not go with the coupling.
        """
        self._need_members()
        made = Trace._of_members(
            self.members, self.weights, self.panel, coupling, self.model, self.cutoff or None, self.issued or None,
            self.notes, node, bins,
        )  # fmt: skip
        return made._with(coupling, Declared(origin=self._origin())) if coupling == "independent" else made

    def on_lattice(self, unit: float | ArrayLike, points: int = 9) -> Trace:
        """The law of independent steps on multiples of a unit. Each step has block means of equal weight, each split
        onto the two neighbouring multiples so that the mean is kept. Members stay as they are for the other modes.

        Args:
            unit: spacing in units of the outcome; of a panel one for all windows or one for each.
            points: block means for each step.

        Returns:
            A new `Trace`.

        Raises:
            InputError: outcomes of several fields, or a unit too fine for them.
        """
        self._need_members()
        spacing: Any = tuple(np.ravel(unit).tolist()) if np.ndim(unit) else unit
        declared = Declared(origin=self._origin(), unit=spacing, points=points, draws=self.declared.draws)
        check_declared("independent", declared, self.members.shape, False)
        several = isinstance(spacing, tuple) and len(set(spacing)) > 1
        units = tuple(map(float, spacing)) if several else float(np.ravel(unit)[0])
        trace = self._with("independent", declared._replace(unit=units))
        trace.laws  # noqa: B018 - a unit too fine for these outcomes is refused here
        return trace

    def with_draws(self, values: Sequence[float], probabilities: Sequence[float]) -> Trace:
        """The same law with one more field in every outcome: a value that is drawn anew in every step, whatever the
        other fields are. Only of independent steps (`on_lattice`, `declare`). Members have the likeliest value."""
        if self.coupling != "independent" or self.is_scores or self.declared.draws:
            seen = "values drawn already" if self.declared.draws else repr(self.coupling)
            raise InputError(
                "trace.coupling", seen, "'independent'", hint="trace.on_lattice(unit) or trace.declare('independent')."
            )
        draws = tuple((float(x), float(p)) for x, p in zip(values, probabilities, strict=True))
        check_draws(draws)
        usual = max(draws, key=lambda pair: pair[1])[0]
        of_all = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("members", "mean"):
            array = getattr(self, name)
            of_all[name] = freeze(np.concatenate([array, np.full((*array.shape[:-1], 1), usual)], axis=-1))
        return Trace.trusted(*{**of_all, "declared": self.declared._replace(draws=draws)}.values())

    def _with(self, coupling: Coupling, declared: Declared) -> Trace:
        """The same members under another law that needs no nodes."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Trace.trusted(*{**values, "coupling": coupling, "declared": declared, "node": None}.values())

    def _origin(self) -> str:
        return self.declared.origin or self.coupling

    def _need_members(self) -> None:
        if self.is_scores:
            raise InputError("trace", "a trace of action scores", "a trace of members")

    @property
    def has_law(self) -> bool:
        """Whether it says what is learned when: joint or comonotone members alone do not."""
        return self.coupling in _LAWS and not self.is_scores

    @cached_property
    def laws(self) -> Laws:
        """Every window's law as arrays; only where `has_law`."""
        if not self.has_law:
            raise InputError(
                "trace.coupling", repr(self.coupling), f"one of {_LAWS}",
                hint="Declare what is learned when: trace.on_lattice(unit) or trace.declare('markov', bins=8).",
            )  # fmt: skip
        return law_arrays(self.members, self.weights, self.coupling, self.declared, self.node)

    def law(self, w: int = 0) -> Law:
        """One window's law: per class of information its points, weights and what follows."""
        return law_of(self.laws, range(self.windows)[w], self.coupling, self.declared)

    def variance_ratios(self, w: int = 0) -> dict[int, float]:
        """Var(sum) / sum of Var over the first 2, 3 and 7 steps of the members, where an independent law was made of
        them; empty otherwise. Above 1.5 sums vary far more than the law says."""
        if self.coupling != "independent" or self._origin() == "comonotone":
            return {}
        steps = [n for n in RATIO_STEPS if n <= self.horizon]
        return dict(zip(steps, variance_ratios(self.members[w], own_row(self.weights, w), steps), strict=True))

    # ---------------------------------------------------------------- what it is

    @property
    def windows(self) -> int:
        return int(self.mean.shape[0])

    @property
    def horizon(self) -> int:
        return int(self.mean.shape[1])

    @property
    def size(self) -> int:
        """Members per window (0 for scores)."""
        return int(self.members.shape[1])

    @property
    def is_scores(self) -> bool:
        return bool(self.q.shape[2] > 0)

    def window(self, w: int) -> Trace:
        """One window of a panel as a trace of its own."""
        if not 0 <= w < self.windows:
            raise InputError("window", w, f"a window from 0 to {self.windows - 1}")
        one = slice(w, w + 1)
        made = Trace.trusted(
            self.members[one], own_rows(self.weights, one), self.mean[one], self.q[one], self.u[one], False,
            self.coupling, self.model,
            pick(self.cutoff, w), pick(self.issued, w), self.notes, self.declared.of_window(w),
            None if self.node is None else self.node[one],
        )  # fmt: skip
        if "laws" in self.__dict__:  # a law is made of its own window alone, so it need not be made again
            made.__dict__["laws"] = self.laws.window(w)
        return self._paired(made, one)

    def noted(self, notes: Sequence[str]) -> Trace:
        """The same with these notes before its own."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return self._paired(Trace(**{**values, "notes": (*notes, *self.notes)}), slice(None))

    def _paired(self, other: Trace, windows: Any) -> Trace:
        """`other`, of some of these windows, with what `join_traces` needs to know of them."""
        if "stood" in self.__dict__:
            other.__dict__["stood"] = self.__dict__["stood"][windows]
        return other

    def some(self, windows: NDArray[np.int64]) -> Trace:
        """Those `windows` of a panel, in that order."""
        weights = freeze(own_rows(self.weights, windows))
        members, mean, q, u = (freeze(a[windows]) for a in (self.members, self.mean, self.q, self.u))
        places = windows.tolist()
        cutoff, issued = (x if len(x) <= 1 else tuple(x[w] for w in places) for x in (self.cutoff, self.issued))
        unit = self.declared.unit
        declared = self.declared
        if isinstance(unit, tuple):
            declared = declared._replace(unit=tuple(unit[w] for w in places))
        made = Trace.trusted(
            members, weights, mean, q, u, True, self.coupling, self.model, cutoff, issued, self.notes, declared,
            None if self.node is None else freeze_nodes(self.node[windows]),
        )  # fmt: skip
        return self._paired(made, windows)

    def meta(self) -> dict[str, Any]:
        """Everything but the arrays, as it enters the hash."""
        law = self.declared.written()
        return {
            **({"law": law} if law else {}),
            "coupling": self.coupling,
            "cutoff": list(self.cutoff),
            "issued": list(self.issued),
            "model": self.model,
            "notes": list(self.notes),
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the full content; the order of members does not matter."""
        arrays = (self.members, self.weights, self.mean, self.q, self.u)
        return content_hash(self.meta(), arrays if self.node is None else (*arrays, self.node))

    # ---------------------------------------------------------------- save and load

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file, whole or not at all."""
        save_trace(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` wrote; a file whose content does not match its hash is refused."""
        return load_trace(path)

    def __repr__(self) -> str:
        what = f"{self.q.shape[2]} action scores" if self.is_scores else f"{self.size} members"
        size = f"{self.windows} windows x " if self.panel else ""
        return f"Trace({size}{what} x {self.horizon} steps, {self.coupling}, {self.model or 'no model name'})"

    def _repr_html_(self) -> str:
        from ucsearch.report.small import score_rows, small_table, trace_rows
        from ucsearch.report.text import esc

        if self.is_scores:
            heads, rows = score_rows(self.q, self.u)
            total = self.windows * self.horizon
        else:
            heads, rows = trace_rows(self.members, self.weights, self.mean)
            total = self.windows if self.windows > 1 else self.horizon * self.members.shape[3]
        return f"<div><p>{esc(repr(self))}</p>{small_table(heads, rows, total)}</div>"


def _restored(values: tuple[Any, ...], recorded: str) -> Trace:
    """What was pickled: checked like any other trace, and of the same content."""
    trace = Trace(*values)
    if trace.hash != recorded:
        raise InputError("pickled trace", f"content hash {trace.hash[:12]}", f"{recorded[:12]} as pickled")
    return trace


def as_times(value: Any, name: str, windows: int) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str | date | int | float | np.generic):
        value = (value,)
    try:
        items = list(value)
    except TypeError:
        raise InputError(name, type(value).__name__, "a time, or one per window") from None
    if len(items) not in (1, windows):
        raise InputError(name, f"{len(items)} times", f"1 or {windows}, one per window")
    out = []
    for i, item in enumerate(items):
        text = item.isoformat() if isinstance(item, date) else str(item)
        if not text:
            raise InputError(name, "an empty text", "a time", index=i)
        out.append(text)
    return tuple(out)


def pick(times: tuple[str, ...], w: int) -> tuple[str, ...]:
    return times if len(times) <= 1 else (times[w],)


_JOINED = ("joint", "comonotone", "independent")


def join_traces(*traces: Trace) -> Trace:
    """Join forecasts of one ensemble into one whose outcomes have the fields of all.

    Member j of each belongs to member j of the others, as they were handed over: a trace sorts its members, so joining
    by its own order would pair them at random.

    Args:
        traces: just made, with the same windows, members, steps, weights and coupling.

    Returns:
        A `Trace` with the fields in order.

    Raises:
        InputError: traces that do not fit, or one that was loaded from a file.
    """
    if not traces:
        raise InputError("traces", "none", "at least one")
    first = traces[0]
    for i, trace in enumerate(traces):
        if not isinstance(trace, Trace):
            raise InputError("traces", type(trace).__name__, "a uc.Trace", index=i)
        if trace.is_scores:
            raise InputError("traces", "a trace of scores", "members", index=i)
        if trace.members.shape[:3] != first.members.shape[:3] or trace.panel != first.panel:
            expected = f"the first one's {first.members.shape[:3]} windows, members and steps"
            raise InputError("traces", f"{trace.members.shape[:3]}", expected, index=i)
        if trace.coupling not in _JOINED or trace.coupling != first.coupling:
            raise InputError("traces", f"coupling {trace.coupling!r}", f"{first.coupling!r}, one of {_JOINED}", index=i)
        if "stood" not in trace.__dict__:
            raise InputError(
                "traces", "a trace that was loaded or unpickled", "one just made", index=i,
                hint="Else it is unknown which member belongs to which. Stack arrays: from_members(..., fields=...).",
            )  # fmt: skip
        if not np.array_equal(_weights(trace), _weights(first)):
            raise InputError("traces", "other weights", "the first one's, member by member", index=i)
    members = np.concatenate([_in_given_order(t.members, t.__dict__["stood"]) for t in traces], axis=3)
    equal = first.weights.shape[0] == 1 and bool((first.weights == first.weights[0, 0]).all())
    weights = None if equal else _weights(first) if first.panel else _weights(first)[0]
    names = " + ".join(t.model for t in traces if t.model)
    return Trace.from_members(
        members if first.panel else members[0], weights,
        fields=members.shape[3], coupling=first.coupling, model=names, cutoff=_common(traces, "cutoff"),
        issued=_common(traces, "issued"), notes=tuple(dict.fromkeys(note for t in traces for note in t.notes)),
    )  # fmt: skip


def _in_given_order(values: Any, stood: NDArray[np.int32]) -> Floats:
    """(W, J, ...) in the order in which members were handed over."""
    out: Floats = np.empty_like(values)
    at = stood.reshape(stood.shape + (1,) * (values.ndim - 2)).astype(np.int64)
    np.put_along_axis(out, np.broadcast_to(at, values.shape), values, axis=1)
    return out


def _weights(trace: Trace) -> Floats:
    """(W, J) in the order in which members were handed over."""
    whole = np.ascontiguousarray(np.broadcast_to(trace.weights, trace.members.shape[:2]))
    return _in_given_order(whole, trace.__dict__["stood"])


def _common(traces: tuple[Trace, ...], name: str) -> Any:
    """What all say that say anything."""
    values = {getattr(t, name) for t in traces if getattr(t, name)}
    if len(values) > 1:
        raise InputError(f"traces.{name}", " and ".join(str(x) for x in sorted(values)), "the same for all")
    if not values:
        return None
    (times,) = values
    return times[0] if len(times) == 1 else list(times)


def content_hash(meta: dict[str, Any], arrays: Iterable[NDArray[Any]]) -> str:
    """SHA-256 of words and arrays, in their order."""
    digest = hashlib.sha256(b"ucsearch.trace.v1\0")
    digest.update(json.dumps(meta, sort_keys=True, separators=(",", ":")).encode())
    for array in arrays:
        digest.update(f"\0{','.join(map(str, array.shape))}\0".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


# -------------------------------------------------------------------- checks of what is declared


def check_declared(kind: str, declared: Declared, shape: tuple[int, ...], has_nodes: bool) -> None:
    """What goes with a coupling: nodes with a tree, bins with a chain, a lattice with independent steps only."""
    if (kind == "tree") != has_nodes:
        raise InputError("trace.node", "nodes" if has_nodes else "nothing", "nodes with coupling='tree', and only then")
    if not isinstance(declared, Declared) or not isinstance(declared.origin, str):
        raise InputError("trace.declared", repr(declared), "what `declare` or `on_lattice` made")
    size, fields = shape[1], shape[3]
    unit, points, bins = declared.unit, declared.points, declared.bins
    if declared.draws:
        check_draws(declared.draws)
        if kind != "independent" or fields < 2:
            raise InputError("trace.draws", f"{kind}, {fields} fields", "independent steps, and a field that is drawn")
        fields -= 1
    if unit != 0 or points != 0:
        if kind != "independent" or fields != 1:
            raise InputError("trace", f"{kind}, {fields} fields", "independent steps and one field on a lattice")
        if isinstance(unit, tuple) and len(unit) != shape[0]:
            raise InputError("unit", f"{len(unit)} numbers", f"one, or {shape[0]}, one per window")
        for i, u in enumerate(unit if isinstance(unit, tuple) else (unit,)):
            if isinstance(u, bool) or not isinstance(u, int | float | np.number) or not 0.0 < float(u) < math.inf:
                index = i if isinstance(unit, tuple) else None
                raise InputError("unit", repr(u), "a finite number above 0, in units of the outcome", index=index)
        _whole("points", points, MOST_POINTS, f"a whole number from 1 to {MOST_POINTS}")
    if (kind == "markov") != (bins != 0):
        raise InputError("trace.bins", repr(bins), "a number of bins with coupling='markov', and only then")
    if bins != 0:
        most = size // MEMBERS_PER_BIN
        _whole("trace.bins", bins, most, f"from 1 to {most}: at least {MEMBERS_PER_BIN} members for each bin")
        if fields != 1:
            raise InputError("trace.members", f"{fields} fields per outcome", "one, with coupling='markov'")


def check_draws(draws: tuple[tuple[float, float], ...]) -> None:
    """Ascending values with positive probabilities that add up to 1."""
    values, shares = [x for x, _ in draws], [p for _, p in draws]
    fine = all(a < b for a, b in pairwise(values)) and all(math.isfinite(x) for x in values)
    if not (fine and all(p > 0.0 for p in shares) and abs(plain_sum(shares) - 1.0) <= SNAP):
        raise InputError("trace.draws", draws, "ascending values, each with a probability above 0; in sum 1")


def _whole(name: str, value: object, most: int, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(name, repr(value), expected)


# -------------------------------------------------------------------- files


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write an .npz file, whole or not at all."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".trace-", suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez_compressed(
                stream, members=trace.members, weights=trace.weights, mean=trace.mean, q=trace.q, u=trace.u,
                node=np.zeros(0) if trace.node is None else trace.node,
                meta=np.array(json.dumps({**trace.meta(), "panel": trace.panel, "hash": trace.hash})),
            )  # fmt: skip
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read what `save_trace` wrote; a file whose content does not match its hash is refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            _unpacks_to(sum(part.file_size for part in file.zip.infolist()), os.path.getsize(path))
            meta = json.loads(str(file["meta"]))
            arrays = [freeze(_of_kind(file[name], "f8").astype(np.float64)) for name in ARRAYS]
            node = file["node"] if "node" in file.files else np.zeros(0)
        nodes = freeze_nodes(_of_kind(node, "i8")) if node.size else None
        unread = Trace.trusted(
            *arrays, meta["panel"], meta["coupling"], meta["model"],
            tuple(meta["cutoff"]), tuple(meta["issued"]), tuple(meta["notes"]), Declared.read(meta.get("law", {})),
            nodes,
        )  # fmt: skip
        recorded = str(meta["hash"])
        content = unread.hash
    except FileNotFoundError:
        raise
    except Exception as error:
        seen = f"{path} ({type(error).__name__}: {error})"
        raise InputError("trace file", seen, "a file written by Trace.save") from None
    if content != recorded:
        raise InputError("trace file", f"content hash {content[:12]}", f"{recorded[:12]} as recorded")
    try:
        unread.check()  # a hash says that nothing was changed, not that it was right
    except Exception as error:
        raise InputError("trace file", f"{path} ({error})", "a file written by Trace.save") from None
    return unread


def _unpacks_to(size: int, packed: int) -> None:
    """A megabyte of zeros packed a thousand times would be a gigabyte of memory before anybody could look at it."""
    if size > max(_MOST_BYTES, _MOST_TIMES * packed):
        raise ValueError(f"{packed:,} bytes unpack to {size:,}")


def _of_kind(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Numbers as `save_trace` writes them, in any order of bytes: the hash takes all for doubles, so what is narrower
    or longer than it looks would go unseen."""
    if array.dtype.str[1:] != kind:
        raise ValueError(f"numbers of kind {array.dtype}, not {kind}")
    return array
