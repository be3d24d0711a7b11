"""What a settings file may name, and the pydantic model of the whole file, made from fields, defaults and comments."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, Field, create_model

from ucsearch.decision.gate import Calibration, Gate
from ucsearch.planner.settings.suppliers import Supplier
from ucsearch.planner.settings.tables import (
    OWN,
    Actions,
    Backtest,
    Columns,
    Files,
    Forecast,
    Log,
    Orders,
    OwnObject,
    Period,
    Run,
    SharedLimit,
    Table,
)
from ucsearch.policies import MCTS, CertifiedBeam, ConstrainedBeam, Exact, ParetoBeam, Proof, UCBeam
from ucsearch.tasks.base import OnSeries, fields_of
from ucsearch.tasks.inventory.record import LeadTimeInventory

__all__ = [
    "field_notes",
    "file_model",
    "forecaster_classes",
    "json_schema",
    "model_of",
    "policy_classes",
    "task_classes",
]


def task_classes() -> dict[str, type[Any]]:
    """The built-in tasks by the name used in settings."""
    from ucsearch.tasks import TASKS

    return {name: info.kind for name, info in TASKS.items()}


def policy_classes() -> dict[str, type[Any]]:
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
    from ucsearch.forecast.ridge import RidgeEnsemble, RidgePaths, UnbiasedRidge
    from ucsearch.forecast.smoothing import Smoothing

    return {
        "auto": Auto,
        "ridge_paths": RidgePaths,
        "unbiased_ridge": UnbiasedRidge,
        "ridge_ensemble": RidgeEnsemble,
        "smoothing": Smoothing,
        "seasonal_naive": SeasonalNaive,
        "bootstrap": MarkovBootstrap,
    }


NO_SOURCE = "not described: the package's source files, whose comments say it, are not here"


def field_notes(cls: type[Any]) -> dict[str, str]:
    """The comment beside each field of a dataclass (or of a tuple or dictionary with names), from its source; where
    that is not here (a stripped image), every field says so."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (dataclasses.is_dataclass(base) or hasattr(base, "_fields") or hasattr(base, "__total__")):
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            notes.update(dict.fromkeys(vars(base).get("__annotations__", {}), NO_SOURCE))
            continue
        notes.update(re.findall(r"^    (\w+): [^#\n]*#\s*(.+?)\s*$", source, flags=re.MULTILINE))
    return notes


# A time budget is not offered: a run that is resumed, or moved to another machine, must decide the same.
_LEFT_OUT: dict[type[Any], tuple[str, ...]] = {
    Gate: ("time_budget_s",), Run: ("clock", "progress"), LeadTimeInventory: ("lead_times",),
}  # fmt: skip
# What a file may say of a record's field, where that is not what the record takes, and its default in files.
_SHARES = "periods; or a table of lead times with their probabilities, such as {2 = 0.7, 3 = 0.3}"
_COSTS = "unit cost from an order size on, such as {100 = 4.5, 500 = 4.2}; below the first, "
_IN_FILES: dict[type[Any], dict[str, dict[str, Any]]] = {
    LeadTimeInventory: {
        "lead_time": {"kind": int | dict[str, float], "description": _SHARES},
        "price_breaks": {"kind": dict[str, float], "default": {}, "description": f"{_COSTS}unit_cost"},
        "expedited_price_breaks": {
            "kind": dict[str, float],
            "default": {},
            "description": f"{_COSTS}expedited_unit_cost",
        },
    },
    Proof: {"eps_m": {"ge": 0.0}, "node_budget": {"ge": 1, "default": 20_000}},
    Run: {
        "threads": {"ge": 1, "le": 1024},
        "chunk": {"ge": 1, "le": 100_000},
        "max_fallback_share": {"ge": 0.0, "le": 1.0},
        "segment_from": {"ge": 1},
    },
    # A store is planned for a day where its settings do not say; others must say.
    **{kind: {"depth": {"default": None}} for kind in policy_classes().values()},
}


@lru_cache(maxsize=128)
def model_of(cls: Any, name: str, described: bool = False) -> Any:
    """A strict pydantic model with the fields of a dataclass of ours; `name` becomes a discriminator. Only a schema
    needs them `described`, by the comments in the source: reading that takes longer than all the rest."""
    hints, notes = get_type_hints(cls), field_notes(cls) if described else {}
    fields: dict[str, Any] = {"name": (Literal[name], ...)} if name else {}
    for item in fields_of(cls) if issubclass(cls, OnSeries) else dataclasses.fields(cls):
        if item.name in _LEFT_OUT.get(cls, ()):
            continue
        own = _IN_FILES.get(cls, {}).get(item.name, {})
        default = own.get("default", ... if item.default is dataclasses.MISSING else item.default)
        if isinstance(default, float) and not math.isfinite(default):
            default = None  # JSON Schema cannot say infinity; None keeps the class's own default
        own, kind = dict(own), own.get("kind", hints[item.name])
        own.pop("kind", None)
        kind = kind | None if default is None else kind
        more = {"description": notes.get(item.name), **own, "default": default}
        fields[item.name] = (kind, Field(**more))
    doc = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return create_model(cls.__name__, __base__=Table, __doc__=doc, **fields)


def _one_of(classes: Mapping[str, type[Any]], described: bool) -> Any:
    kinds: dict[str, Any] = dict(classes)
    models = tuple(model_of(cls, name, described) for name, cls in kinds.items())
    if len(models) == 1:
        return models[0]
    union: Any = models[0]
    for model in models[1:]:
        union = union | model
    return Annotated[union, Field(discriminator="name")]


@lru_cache(maxsize=2)
def file_model(described: bool = False) -> type[BaseModel]:
    forecaster: dict[str, Any] = dict(forecaster_classes())
    usual = {"name": "ridge_paths", "floor": 0.0}
    fallback = model_of(forecaster["ridge_paths"], "ridge_paths", described).model_validate(usual)

    def part(cls: Any) -> Any:
        kind = model_of(cls, "", described)
        return (kind, Field(kind()))

    wording = "a series without a usable forecast is REFUSED, or on HOLD for a person; neither sends anything"
    losing = "what sharing the limits of [shared] may lose at most, as a share of what they cost"
    serving = "when it may lose more: every series takes its fallback, or the best allocation found is sent"
    more: dict[str, Any] = {
        "without_forecast": (Literal["refuse", "hold"], Field("refuse", description=wording)),
        "shared_gap": (float, Field(0.01, ge=0.0, description=losing)),
        "shared_serve": (Literal["fallback", "best"], Field("fallback", description=serving)),
    }
    gate = create_model(
        "Gate", __base__=model_of(Gate, "", described), __doc__=Gate.__doc__, **more,
    )  # fmt: skip
    return create_model(
        "Settings",
        __base__=Table,
        __doc__="Settings of a planning job.",
        units=(str, Field("units", description="what quantities are counted in")),
        currency=(str, Field("", description="what costs are counted in")),
        period=(Period, Field("any", description="step between dates; any: only ascending")),
        files=(Files, Files()),
        task=(_one_of({**task_classes(), OWN: OwnObject}, described) | None, None),
        policy=(_one_of(policy_classes(), described) | None, None),
        gate=(gate, Field(gate())),
        calibration=part(Calibration),
        proof=part(Proof),
        actions=(Actions, Actions()),
        forecast=(Forecast, Forecast()),
        forecaster=(_one_of(forecaster, described), Field(fallback)),
        columns=(Columns, Columns()),
        backtest=(Backtest, Backtest()),
        orders=(Orders, Orders()),
        run=part(Run),
        log=(Log, Log()),
        shared=(dict[str, SharedLimit], {}),
        supplier=(list[Supplier], []),
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema of the settings file."""
    schema = file_model(described=True).model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "required": ["task", "policy"]}
