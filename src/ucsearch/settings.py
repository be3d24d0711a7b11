"""The settings of a planning job: one TOML file, one pydantic model, errors that name file, key and allowed values.

Tables whose keys belong to a class of ours (the task, the policy, the gate, the forecaster) get their model from that
class: its fields, defaults and comments. The class itself then checks the values, so there is one place for each rule.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import inspect
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from ucsearch.dispatch.gate import Calibration, Gate
from ucsearch.effort import Proof
from ucsearch.effort import Run as Work
from ucsearch.errors import InputError, UCSearchError
from ucsearch.forecast.recalibrate import Recalibration
from ucsearch.policies import MCTS, CertifiedBeam, ConstrainedBeam, Exact, ParetoBeam, Policy, UCBeam

__all__ = [
    "Actions",
    "Backtest",
    "Columns",
    "Forecast",
    "Log",
    "Proof",
    "Run",
    "Settings",
    "SettingsError",
    "SharedLimit",
    "field_notes",
    "forecaster_classes",
    "json_schema",
    "load_settings",
    "parse_settings",
    "task_classes",
]

Period = Literal["15min", "30min", "hour", "day", "weekday", "week", "month", "any"]


class SettingsError(InputError):
    """Every problem of a settings file, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        UCSearchError.__init__(self, "\n".join(lines))
        self.lines = tuple(lines)
        self.field, self.index, self.seen, self.expected = "settings", None, "", ""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Columns(_Table):
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
    cutoff: str = Field(default="cutoff", description="forecasts, optional: last observed time")
    issued: str = Field(default="issued", description="forecasts, optional: when the forecast was made")
    model: str = Field(default="model", description="forecasts, optional: who made it")
    demand: str = Field(default="demand", description="sales: units asked for in a period")
    rename: dict[str, str] = Field(default={}, description="states: your name = our name, such as stock = 'on_hand'")
    ignore: tuple[str, ...] = Field(default=(), description="columns of yours that are not meant for us")
    decimal: Literal["auto", ".", ","] = Field(default="auto", description="how numbers are written in CSV files")
    dates: Literal["auto", "dmy", "mdy"] = Field(
        default="auto", description="auto: 2024-05-20 or 20.05.2024; dmy: also 20/05/2024; mdy: also 05/20/2024"
    )
    gaps: Literal["refuse", "zero"] = Field(
        default="refuse", description="sales: periods without a row are refused, or are periods without demand"
    )


class Actions(_Table):
    """An action grid that fits each series: nothing, and the forecast plus multiples of its spread."""

    multiples: tuple[float, ...] | None = Field(
        default=None, description="ascending; with 0 (nothing) they replace task.order_sizes"
    )
    periods: tuple[int, ...] = Field(
        default=(), description="besides multiples: sizes that cover so many periods of forecast demand, ascending"
    )
    batch: bool = Field(default=False, description="besides multiples: the economic batch of the fixed cost")
    lots: int = Field(
        default=0,
        ge=0,
        le=64,
        description="instead: so many sizes on a lattice, up to two economic batches; for policy.mode = 'closed'",
    )
    points: int = Field(default=9, ge=1, le=256, description="outcomes per period that mode 'closed' tells apart")
    round_to: float = Field(
        default=0.0, ge=0.0, description="scaled actions are rounded up to multiples of this; 0: not"
    )


class Forecast(_Table):
    """How forecasts become members."""

    model: str = Field(default="", description="name of the forecaster, for the record")
    coupling: Literal["joint", "independent", "comonotone"] = Field(
        default="joint", description="how given members hang together across steps"
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
    steps: int | None = Field(default=None, ge=1, description="use only so many steps of each forecast")
    recalibrate: Literal["rolling", "paths", "off"] = Field(
        default="off", description="correct members by phase of the season, from an archive of past forecasts"
    )
    season: int | None = Field(default=None, ge=1, description="periods of the longest season; backtest.season if none")
    cycles: int = Field(default=28, ge=1, le=1000, description="seasons that recalibration looks back on")
    scale: bool = Field(default=True, description="recalibrate the spread too; false: bias only, sound for counts")
    floor: float | None = Field(default=None, description="no recalibrated member goes below; the forecaster's if none")


class SharedLimit(_Table):
    """A limit that the decisions of all series share; `ucsearch allocate` keeps it."""

    name: str = Field(description="what is shared, such as 'truck volume'")
    limit: float | list[float] | dict[str, float | list[float]] = Field(
        description="units of it; a list has one for each step from now on; with `per` a table with one for each group"
    )
    use: str = Field(description="which of the task's uses counts, such as 'units', 'spend' or 'lines'")
    times: float | str = Field(
        default=1.0,
        description="use is multiplied by this: a number, or a column of the states such as litres of a unit",
    )
    per: str = Field(default="", description="column of the states with the group of each series, such as its truck")
    steps: int | None = Field(
        default=None, ge=1, description="planning steps at which it holds, from now on; mode closed when above 1"
    )


class Backtest(_Table):
    """How much of the history is replayed."""

    periods: int = Field(default=28, ge=1, description="last periods that are decided and counted")
    warmup: int = Field(default=7, ge=0, description="periods before them that are decided but not counted")
    season: int = Field(default=1, ge=1, description="periods of a season, for the forecaster")
    seed: int = Field(default=1, ge=0, description="of the forecaster's sample paths")


@dataclass(frozen=True, kw_only=True)
class Run(Work):
    """How the work is done; nothing here changes a decision."""

    chunk: int = 1_000  # series decided and logged at a time
    max_fallback_share: float = 0.2  # with more fallbacks a run ends with exit code 1 and says why
    segment_from: int = 5_000  # runs of at least so many series are logged as a segment (needs pyarrow)


class Log(_Table):
    """What a segment of the log keeps of each forecast."""

    keep: Literal["used", "all", "reference"] = Field(
        default="used", description="the steps that are planned on, all steps, or where in the file they are"
    )


@dataclass(frozen=True)
class Settings:
    """Checked settings with the objects they describe."""

    file: str
    digest: str  # SHA-256 of the file
    units: str
    currency: str
    period: Period
    task: Any  # the task's parameters, such as a LeadTimeInventory
    policy: Policy
    gate: Gate
    calibration: Calibration
    proof: Proof
    actions: Actions
    forecast: Forecast
    forecaster: Any  # of ucsearch.forecast
    columns: Columns
    backtest: Backtest
    run: Run
    shared: tuple[SharedLimit, ...] = ()
    log: Log = field(default_factory=Log)

    @property
    def season(self) -> int:
        """Periods of the longest season."""
        return self.forecast.season or self.backtest.season

    @property
    def recalibration(self) -> Recalibration:
        """How members are recalibrated before planning."""
        f = self.forecast
        floor = getattr(self.forecaster, "floor", -math.inf) if f.floor is None else f.floor
        return Recalibration(f.recalibrate, self.season, f.cycles, f.scale, float(floor))


# -------------------------------------------------------------------- what may be named


def task_classes() -> dict[str, type[Any]]:
    """The built-in tasks by the name used in settings."""
    from ucsearch.tasks import TASKS

    return {name: info.kind for name, info in TASKS.items()}


def _policies() -> dict[str, type[Any]]:
    return {
        "uc_beam": UCBeam,
        "pareto_beam": ParetoBeam,
        "certified_beam": CertifiedBeam,
        "constrained_beam": ConstrainedBeam,
        "exact": Exact,
        "mcts": MCTS,
    }


def forecaster_classes() -> dict[str, type[Any]]:
    """The built-in forecasters by the name used in settings."""
    from ucsearch.forecast.auto import Auto
    from ucsearch.forecast.bootstrap import MarkovBootstrap
    from ucsearch.forecast.naive import SeasonalNaive
    from ucsearch.forecast.ridge import RidgeEnsemble, RidgePaths

    return {
        "auto": Auto,
        "ridge_paths": RidgePaths,
        "ridge_ensemble": RidgeEnsemble,
        "seasonal_naive": SeasonalNaive,
        "bootstrap": MarkovBootstrap,
    }


def field_notes(cls: type[Any]) -> dict[str, str]:
    """The comment beside each field of a dataclass, from its source."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        notes.update(re.findall(r"^    (\w+): [^#\n]*#\s*(.+?)\s*$", source, flags=re.MULTILINE))
    return notes


# A time budget is not offered: a run that is resumed, or moved to another machine, must decide the same.
_LEFT_OUT: dict[type[Any], tuple[str, ...]] = {Gate: ("time_budget_s",), Run: ("clock", "progress")}
# What a file may say of a record's field, where that is less than the record takes, and its default in files.
_IN_FILES: dict[type[Any], dict[str, dict[str, Any]]] = {
    Proof: {"eps_m": {"ge": 0.0}, "node_budget": {"ge": 1, "default": 20_000}},
    Run: {
        "threads": {"ge": 1, "le": 1024},
        "chunk": {"ge": 1, "le": 100_000},
        "max_fallback_share": {"ge": 0.0, "le": 1.0},
        "segment_from": {"ge": 1},
    },
}


@lru_cache(maxsize=64)
def _model_of(cls: Any, name: str) -> Any:
    """A strict pydantic model with the fields of a dataclass of ours; `name` becomes a discriminator."""
    hints, notes = get_type_hints(cls), field_notes(cls)
    fields: dict[str, Any] = {"name": (Literal[name], ...)} if name else {}
    for item in dataclasses.fields(cls):
        if item.name in _LEFT_OUT.get(cls, ()):
            continue
        default = ... if item.default is dataclasses.MISSING else item.default
        if isinstance(default, float) and not math.isfinite(default):
            default = None  # JSON Schema cannot say infinity; None keeps the class's own default
        kind = hints[item.name] | None if default is None else hints[item.name]
        more = {"default": default, "description": notes.get(item.name), **_IN_FILES.get(cls, {}).get(item.name, {})}
        fields[item.name] = (kind, Field(**more))
    doc = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return create_model(cls.__name__, __base__=_Table, __doc__=doc, **fields)


def _one_of(classes: Mapping[str, type[Any]]) -> Any:
    kinds: dict[str, Any] = dict(classes)
    models = tuple(_model_of(cls, name) for name, cls in kinds.items())
    if len(models) == 1:
        return models[0]
    union: Any = models[0]
    for model in models[1:]:
        union = union | model
    return Annotated[union, Field(discriminator="name")]


@lru_cache(maxsize=1)
def _file_model() -> type[BaseModel]:
    forecaster: dict[str, Any] = dict(forecaster_classes())
    fallback = _model_of(forecaster["ridge_paths"], "ridge_paths").model_validate({"name": "ridge_paths", "floor": 0.0})
    return create_model(
        "Settings",
        __base__=_Table,
        __doc__="Settings of a planning job.",
        units=(str, Field("units", description="what quantities are counted in")),
        currency=(str, Field("", description="what costs are counted in")),
        period=(Period, Field("any", description="step between dates; any: only ascending")),
        task=(_one_of(task_classes()), ...),
        policy=(_one_of(_policies()), ...),
        gate=(_model_of(Gate, ""), Field(_model_of(Gate, "")())),
        calibration=(_model_of(Calibration, ""), Field(_model_of(Calibration, "")())),
        proof=(_model_of(Proof, ""), Field(_model_of(Proof, "")())),
        actions=(Actions, Actions()),
        forecast=(Forecast, Forecast()),
        forecaster=(_one_of(forecaster), Field(fallback)),
        columns=(Columns, Columns()),
        backtest=(Backtest, Backtest()),
        run=(_model_of(Run, ""), Field(_model_of(Run, "")())),
        log=(Log, Log()),
        shared=(tuple[SharedLimit, ...], ()),
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema of the settings file."""
    schema = _file_model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# -------------------------------------------------------------------- reading


def load_settings(path: str | Path) -> Settings:
    """Read a settings file; `SettingsError` lists everything wrong with it."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read ({error.strerror})"]) from error
    return parse_settings(data, str(path))


def parse_settings(data: bytes, file: str = "settings") -> Settings:
    try:
        content = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file}: not valid TOML: {error}"]) from error
    _looking_fallback(content)
    if isinstance(content.get("actions"), dict) and (
        content["actions"].get("multiples") is not None or content["actions"].get("lots")
    ):
        _place_holders(content, file)
    try:
        # By way of JSON, because there lists may become tuples although types are strict.
        found: Any = _file_model().model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise SettingsError([_line(e, file) for e in error.errors()]) from error
    problems: list[str] = []

    def make(table: str, cls: type[Any], model: BaseModel) -> Any:
        given = {k: getattr(model, k) for k in model.model_fields_set if k != "name"}
        plain = {k: v for k, v in given.items() if v is not None}
        try:
            return cls(**plain)
        except InputError as error:
            problems.append(f"{file}: {table}.{str(error).removeprefix(f'{table}.')}")
            return None

    task = make("task", task_classes()[found.task.name], found.task)
    policy = make("policy", _policies()[found.policy.name], found.policy)
    gate = make("gate", Gate, found.gate)
    calibration = make("calibration", Calibration, found.calibration)
    proof, run = Proof(**found.proof.model_dump()), Run(**found.run.model_dump())
    forecaster = make("forecaster", forecaster_classes()[found.forecaster.name], found.forecaster)
    if found.policy.mode == "scores":
        problems.append(f"{file}: policy.mode: saw 'scores', expected 'mean' or 'members': files hold forecasts")
    if found.actions.multiples is not None and not hasattr(task_classes()[found.task.name], "scaled"):
        problems.append(f"{file}: actions.multiples: saw a list, expected nothing: {found.task.name} cannot be scaled")
    sizes = found.actions
    if sizes.lots and (sizes.multiples is not None or not hasattr(task_classes()[found.task.name], "lots")):
        problems.append(f"{file}: actions.lots: expected no multiples beside it, and a task with lots")
    if (sizes.periods or sizes.batch) and sizes.multiples is None:
        problems.append(f"{file}: actions.periods, actions.batch: expected multiples beside them")
    if any(b <= a for a, b in pairwise((0, *sizes.periods))):
        problems.append(
            f"{file}: actions.periods: saw {list(sizes.periods)}, expected ascending whole numbers from 1 on"
        )
    if found.policy.mode == "closed" and getattr(found.task, "spoilage", 0.0):
        problems.append(
            f"{file}: policy.mode: saw 'closed', expected 'members', because task.spoilage leaves the lattice"
        )
    if problems:
        raise SettingsError(problems)
    if policy.mode == "closed" and getattr(task, "unmet", "") == "lost" and not task.is_planned:
        task = dataclasses.replace(task, merge_arrivals=True)  # the same costs, far fewer states
    return Settings(
        file=file, digest=hashlib.sha256(data).hexdigest(), units=found.units, currency=found.currency,
        period=found.period, task=task, policy=policy, gate=gate, calibration=calibration, proof=proof,
        actions=found.actions, forecast=found.forecast, forecaster=forecaster, columns=found.columns,
        backtest=found.backtest, run=run, shared=found.shared, log=found.log,
    )  # fmt: skip


# What a planning job does where its settings do not say: falls back to an action that looks at the forecast and the
# state; stores value what is left at the end by the forecast, stock at what a unit costs.
_FALLBACKS = {"lead_time_inventory": "level", "capacity_plan": "need", "delayed_exposure": "flat"}


# How long a period lasts, for tasks that turn power into energy.
_HOURS = {"15min": 0.25, "30min": 0.5, "hour": 1.0, "day": 24.0}


def _looking_fallback(content: dict[str, Any]) -> None:
    task = content.get("task")
    if isinstance(task, dict) and task.get("name") == "storage":
        more: dict[str, Any] = {} if "end_value" in task else {"end_price": "forecast"}
        if content.get("period") in _HOURS:
            more["hours"] = _HOURS[content["period"]]
        content["task"] = {**more, **task}
    if isinstance(task, dict) and task.get("name") == "lead_time_inventory" and task.get("salvage") != 0:
        task = content["task"] = {"end_stock": "unit_cost", **task}
    if isinstance(task, dict) and task.get("name") in _FALLBACKS and "fallback_order" not in task:
        content["task"] = {"fallback_rule": _FALLBACKS[task["name"]], **task}


def _place_holders(content: dict[str, Any], file: str) -> None:
    """With multiples the order sizes are only counted, so they need not be given."""
    task, multiples = content.get("task"), content["actions"].get("multiples")
    lots = content["actions"].get("lots", 0)
    if isinstance(task, dict) and multiples is None and isinstance(lots, int):
        multiples = list(range(lots))
    if not isinstance(task, dict) or not isinstance(multiples, list):
        return
    if not hasattr(task_classes().get(task.get("name", "")), "scaled"):
        return  # refused later, in words
    if "order_sizes" in task:
        line = f"{file}: task.order_sizes: saw a list, expected nothing beside actions.multiples, which replaces it"
        raise SettingsError([line])
    periods = content["actions"].get("periods", [])
    count = len(multiples) + 1 + (len(periods) if isinstance(periods, list) else 0)
    count += content["actions"].get("batch") is True
    content["task"] = {**task, "order_sizes": [float(i) for i in range(count)]}


def _line(error: Any, file: str) -> str:
    """One pydantic error as one line: file, key, what was seen, what is allowed."""
    loc = [str(x) for x in error["loc"]]
    names = {name for classes in _named().values() for name in classes}
    # The discriminator's value stands in the path; it is no key of the file.
    where = [x for i, x in enumerate(loc) if not (i == 1 and x in names)]
    key = ".".join(where) or "the file"
    kind, context = error["type"], error.get("ctx", {})
    if where == ["gate", "time_budget_s"]:
        return f"{file}: {key}: not for files, because a resumed run must decide the same; use gate.node_budget"
    if kind == "extra_forbidden":
        return f"{file}: {key}: unknown key, expected {_allowed(loc[:-1], where[-1])}"
    if kind == "missing" and where[-1] == "name":
        return f"{file}: {key}: missing, expected one of {_names(where[0])}"
    if kind == "missing":
        return f"{file}: {key}: missing, expected {'a table' if len(where) == 1 else 'a value'}"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        seen = "nothing" if kind.endswith("found") else repr(context["tag"])
        return f"{file}: {key}.name: saw {seen}, expected one of {_names(where[0])}"
    seen = repr(error["input"]) if isinstance(error["input"], str | int | float | bool) else "a value"
    if kind == "literal_error":
        return f"{file}: {key}: saw {seen}, expected one of {context['expected']}"
    text = error["msg"].removeprefix("Input should be ").removeprefix("Input should have ")
    return f"{file}: {key}: saw {seen}, expected {text[:1].lower()}{text[1:]}"


def _names(table: str) -> str:
    return ", ".join(map(repr, _named()[table]))


def _named() -> dict[str, dict[str, type[Any]]]:
    """The tables that choose a class by name."""
    return {"task": task_classes(), "policy": _policies(), "forecaster": forecaster_classes()}


def _allowed(loc: Sequence[str], wrong: str) -> str:
    """The keys a table may have, the likeliest first."""
    model: Any = _file_model()
    if loc:
        classes = _named().get(loc[0])
        if classes is not None:
            tag = loc[1] if len(loc) > 1 else next(iter(classes))
            cls: Any = classes[tag]
            model = _model_of(cls, tag)
        else:
            model = model.model_fields[loc[0]].annotation
    keys = list(model.model_fields)
    close = difflib.get_close_matches(wrong, keys, n=1)
    hint = f"{close[0]!r}? All keys: " if close else "one of "
    return hint + ", ".join(keys)
