"""Tables of a settings file that belong to no class of ours, and the settings that come out of a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ucsearch.decision.gate import Calibration, Gate
from ucsearch.forecast.recalibrate import Recalibration
from ucsearch.policies import Policy, Proof
from ucsearch.policies import Run as Work

__all__ = [
    "OWN",
    "Actions",
    "Backtest",
    "Columns",
    "Files",
    "Forecast",
    "Log",
    "Orders",
    "OwnObject",
    "Period",
    "Run",
    "Settings",
    "SharedLimit",
    "Table",
]

Period = Literal["15min", "30min", "hour", "day", "weekday", "week", "month", "any"]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


OWN = "own"  # task.name of a task that does not ship with the package


@dataclass(frozen=True)
class OwnObject:
    """A task of one's own: its code is run."""

    object: str  # 'package.module:object', or 'file.py:object' beside the settings file: a uc.Task or its parameters


class Columns(Table):
    """What the columns of your files are called."""

    series: str = Field(default="series", description="name of the series, in every file")
    step: str = Field(default="step", description="forecasts: 1, 2, 3, ...; or use a date column")
    date: str = Field(default="date", description="forecasts and sales: ISO dates, ascending within a series")
    members: str = Field(
        default="member_", description="forecasts: prefix of ensemble columns, member_1, member_2, ..."
    )
    sample: str = Field(default="sample", description="forecasts: number of a sample path, with one value per row")
    value: str = Field(default="value", description="forecasts: the value that goes with sample")
    mean: str = Field(default="mean", description="forecasts: mean of a step")
    std: str = Field(default="std", description="forecasts: standard deviation of a step")
    quantiles: str = Field(
        default="q", description="forecasts: prefix of quantile columns, q0.1 or q10; 0.1 and model-lo-90 are known too"
    )
    variable: str = Field(
        default="variable", description="forecasts and sales, outcomes of several fields: which of them a row is about"
    )
    cutoff: str = Field(default="cutoff", description="forecasts, optional: last observed time")
    issued: str = Field(default="issued", description="forecasts, optional: when the forecast was made")
    model: str = Field(default="model", description="forecasts, optional: who made it")
    demand: str = Field(default="demand", description="sales: units asked for in a period")
    rename: dict[str, str] = Field(default={}, description="states: your name = our name, such as stock = 'on_hand'")
    ignore: tuple[str, ...] = Field(default=(), description="columns of yours to ignore")
    decimal: Literal["auto", ".", ","] = Field(default="auto", description="how numbers are written in CSV files")
    dates: Literal["auto", "dmy", "mdy"] = Field(
        default="auto", description="auto: 2024-05-20 or 20.05.2024; dmy: also 20/05/2024; mdy: also 05/20/2024"
    )
    gaps: Literal["refuse", "zero", "unknown"] = Field(
        default="refuse",
        description="sales: periods without a row are refused, are periods without demand, or their demand is unknown",
    )
    add_up: bool = Field(
        default=False, description="sales: rows of a series in one period are added up, such as receipts of a day"
    )
    closing_stock: str = Field(
        default="", description="sales: stock at the end of a period; without any, demand was at least what was sold"
    )
    out_of_stock: str = Field(
        default="", description="sales: 1 where not all that was asked for could be sold, so that demand is unknown"
    )
    known: tuple[str, ...] = Field(
        default=(),
        description="sales and files.future: what is known ahead and moves demand, such as a promotion or a price",
    )


class Files(Table):
    """Where your files are, relative to the settings file: every command reads and writes these."""

    sales: str = Field(default="sales.csv", description="history of what is forecast: demand, prices, ...")
    states: str = Field(default="states.csv", description="stock, open orders, and what differs by series")
    forecasts: str = Field(default="forecasts.csv", description="written by forecast or by you, read by decide")
    decisions: str = Field(default="decisions.csv", description="written by decide, a row per series")
    log: str = Field(default="decisions.db", description="the audit log; decisions are added to it")
    orders: str = Field(default="orders.csv", description="written by orders; .csv or .xlsx")
    plan: str = Field(default="plan.csv", description="written by explain --plan, a row per series and period")
    tuned: str = Field(default="tuned.toml", description="written by tune: these settings with what it chose")
    results: str = Field(default="", description="written by backtest, a row per series; none if left out")
    archive: str = Field(default="", description="past forecasts and outcomes, kept up by forecast and decide")
    outcomes: str = Field(default="", description="read by monitor; files.sales if left out")
    watched: str = Field(default="", description="written by monitor, a row per series")
    problems: str = Field(default="", description="written by every command: all that is wrong with the files")
    future: str = Field(default="", description="future values of columns.known by date, for each series or for all")
    holidays: str = Field(default="", description="dates without orders and deliveries, a line each; read by all")
    targets: str = Field(
        default="targets.csv", description="written by tune, read by all: penalties that reach a fill rate or a level"
    )
    pages: str = Field(default="", description="folder for the HTML page of every command")


class Orders(Table):
    """What `ucsearch orders` writes."""

    by: str = Field(
        default="",
        description="column of the states, such as supplier: a file for each of its values; else `per` of [shared]",
    )


class Actions(Table):
    """An action grid that fits each series: nothing, and the forecast plus multiples of its spread."""

    multiples: tuple[float, ...] | None = Field(
        default=None, description="ascending; with 0 (nothing) they replace task.order_sizes"
    )
    periods: tuple[int, ...] = Field(
        default=(), description="sizes that cover this many periods of forecast demand, besides multiples; ascending"
    )
    batch: bool = Field(default=False, description="besides multiples: the economic batch of the fixed cost")
    lots: int = Field(
        default=0,
        ge=0,
        le=64,
        description="instead: this many sizes on a lattice, up to two economic batches; for policy.mode = 'closed'",
    )
    points: int = Field(default=9, ge=1, le=256, description="outcomes per period that mode 'closed' tells apart")
    round_to: float = Field(
        default=0.0, ge=0.0, description="scaled actions are rounded up to multiples of this; 0: not"
    )


class Forecast(Table):
    """How forecasts become members."""

    model: str = Field(default="", description="name of the forecaster, for the record, where the file names none")
    coupling: Literal["joint", "independent", "comonotone"] = Field(
        default="joint", description="how given sample paths depend on each other across steps"
    )
    method: Literal["grid", "sobol"] = Field(
        default="grid",
        description="members of mean and std or of quantiles: one quantile at all steps, or independent steps",
    )
    points: int = Field(
        default=9, ge=1, le=4096, description="how many members are made of mean and std or of quantiles"
    )
    seed: int = Field(default=1, ge=0, description="of sobol points")
    crossing: Literal["refuse", "sort"] = Field(default="refuse", description="crossed quantiles")
    steps: int | None = Field(default=None, ge=1, description="use only this many steps of each forecast")
    recalibrate: Literal["rolling", "paths", "off"] = Field(
        default="off", description="correct members by phase of the season, from an archive of past forecasts"
    )
    season: int | None = Field(default=None, ge=1, description="periods of the longest season; backtest.season if none")
    cycles: int = Field(default=28, ge=1, le=1000, description="seasons that recalibration looks back on")
    scale: bool = Field(default=True, description="recalibrate the spread too; false: bias only, sound for counts")
    floor: float | None = Field(default=None, description="no recalibrated member goes below; the forecaster's if none")
    max_age: int | None = Field(
        default=None, ge=0, description="periods ago that a forecast may begin; 2 for files, dates alone in a service"
    )
    keep_outliers: bool = Field(default=False, description="learn from outliers too; false: they are limited")


class SharedLimit(Table):
    """A limit that the actions of all series share; `ucsearch decide` keeps it."""

    limit: float | list[float] | dict[str, float | list[float]] | None = Field(
        default=None,
        description="units of it in a period; with `per` a table with one for each group; a list has one for each step",
    )
    dates: str = Field(
        default="", description="instead: a file with the columns date, limit and, with `per`, that of the group"
    )
    column: str = Field(
        default="", description="column of the states with what one unit takes, such as litres; left out: 1"
    )
    use: str = Field(default="", description="which of the task's uses counts, such as 'spend'; left out: its first")
    per: str = Field(default="", description="column of the states with the group of each series, such as its truck")
    steps: int | None = Field(
        default=None, ge=1, description="planning steps at which it holds, from now on; mode closed when above 1"
    )

    @property
    def looks_ahead(self) -> bool:
        """Whether it holds at later steps too."""
        amounts = self.limit.values() if isinstance(self.limit, dict) else (self.limit,)
        return (self.steps or 1) > 1 or any(isinstance(x, list) and len(x) > 1 for x in amounts)


class Backtest(Table):
    """How much of the history is replayed."""

    periods: int = Field(default=28, ge=1, description="last periods that are decided and counted")
    warmup: int = Field(default=7, ge=0, description="periods before them that are decided but not counted")
    season: int | None = Field(
        default=None, ge=1, description="periods of a season, for the forecaster; left out: the period's usual one"
    )
    seed: int = Field(default=1, ge=0, description="of the forecaster's sample paths")
    earlier: int | None = Field(
        default=None, ge=0, description="periods before them that rules are tuned on; 0: none; left out: as many again"
    )
    tries: int = Field(default=12, ge=2, le=12, description="settings of the policy that tune tries")
    origins: int | None = Field(default=None, ge=1, description="past forecasts of a series that calibrate looks at")
    cluster: str = Field(
        default="", description="column of the states such as store: intervals count what it names as one; else trucks"
    )


@dataclass(frozen=True, kw_only=True)
class Run(Work):
    """How the work is done; nothing here changes a decision."""

    chunk: int = 1_000  # series decided and logged at a time
    max_fallback_share: float = 0.2  # with more fallbacks a run ends with exit code 1 and says why
    segment_from: int = 5_000  # runs of at least so many series are logged as a segment (needs pyarrow)


class Log(Table):
    """What a segment of the log keeps of each forecast."""

    keep: Literal["used", "all", "reference"] = Field(
        default="used", description="the steps that are planned on, all steps, or where in the file they are"
    )


@dataclass(frozen=True)
class Settings:
    """Checked settings with the objects they describe."""

    file: str  # where they were read from; "" for none
    text: str  # what was read, with the changes of --set
    digest: str  # SHA-256 of the text
    units: str  # of the outcome, for texts and tables
    currency: str  # of the reward, for texts and tables
    period: Period  # of one step, such as "day"
    task: Any  # the task's parameters, such as a LeadTimeInventory; None in settings that only forecast
    policy: Policy  # how to search
    gate: Gate  # what must hold before an action leaves
    calibration: Calibration  # measured figures of the forecaster, for the gate
    proof: Proof  # what a proof may cost and assume
    actions: Actions  # order sizes that fit each series
    forecast: Forecast  # how forecasts are read and recalibrated
    forecaster: Any  # of ucsearch.forecast
    columns: Columns  # what the user's files call things
    backtest: Backtest  # periods that are replayed
    run: Run  # engine, threads, chunks
    shared: Mapping[str, SharedLimit] = field(default_factory=dict)  # limits that series share, by name
    shared_gap: float = 0.01  # what sharing them may lose at most, of what they cost
    shared_serve: Literal["fallback", "best"] = "fallback"  # what leaves when it may lose more
    log: Log = field(default_factory=Log)  # what large runs keep
    without_forecast: Literal["refuse", "hold"] = "refuse"  # what a series without a usable forecast is called
    files: Files = field(default_factory=Files)  # where the user's files are
    orders: Orders = field(default_factory=Orders)  # what `ucsearch orders` writes

    def path(self, key: str) -> Path | None:
        """The file that `[files]` names so, beside the settings file; None where the key is left out."""
        name = getattr(self.files, key)
        return Path(self.file).parent / name if name else None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the outcome's fields where files have several, such as price and load; else none."""
        kind = None if self.task is None else self.task.task().outcome
        drawn = getattr(self.task, "drawn", ())
        fields = () if kind is None else tuple(name for name in kind._fields if name not in drawn)
        return fields if len(fields) > 1 else ()

    @property
    def season(self) -> int:
        """Periods of the longest season; 1 where they are left out, until a history says more (`with_season`)."""
        return self.forecast.season or self.backtest.season or 1

    @property
    def recalibration(self) -> Recalibration:
        """How members are recalibrated before planning."""
        f = self.forecast
        floor = getattr(self.forecaster, "floor", -math.inf) if f.floor is None else f.floor
        return Recalibration(f.recalibrate, self.season, f.cycles, f.scale, float(floor))
