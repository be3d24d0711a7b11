"""What success looks like, for the description: a client that is made of it knows every member of every answer.

Answers that are records of `reads`, `watching` and `telling` are described by those; the others are told here. The
service does not look at any of this when it answers: a test holds every answer against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from ucsearch.dispatch.decision import Outcome
from ucsearch.dispatch.gate import Reason
from ucsearch.service.config import Limits
from ucsearch.service.reads import DecisionLine, Figure, LogView, PlanView, SeriesView, Verified
from ucsearch.service.telling import Explained
from ucsearch.service.watching import MonitorView, StreamView

__all__ = ["answer_schemas", "limit", "told"]

_REF = "#/components/schemas/{model}"
_MODE: Literal["serialization"] = "serialization"


@dataclass(frozen=True)
class Standing:
    """How the calibration monitor stood when it was decided."""

    state: Literal["off", "armed", "tripped", "unknown"]
    evidence: Figure


@dataclass(frozen=True)
class Answer:
    """One decision, recorded. FALLBACK and HOLD are outcomes, not errors."""

    id: str
    seq: int
    head: str
    series: str
    outcome: Outcome
    action: Figure  # null: nothing leaves
    label: str
    reason: Reason
    cause: Reason
    sentence: str
    margin: Figure
    regret_bound: Figure
    pass_kind: str
    plan: str
    valid_until: str
    monitor: Standing


@dataclass(frozen=True)
class OrderAnswer(Answer):
    """With what is ordered, where the task is one of ordering."""

    order: Figure = None


@dataclass(frozen=True)
class Answers:
    """One for each item, in their order."""

    items: tuple[OrderAnswer, ...]


@dataclass(frozen=True)
class Decisions:
    """A page of decisions, newest first."""

    items: tuple[DecisionLine, ...]
    next: str | None  # address of the next page


@dataclass(frozen=True)
class Series(SeriesView):
    """A series as it stands, with its monitor."""

    monitor: StreamView | None
    overdue: int


@dataclass(frozen=True)
class Plans:
    items: tuple[PlanView, ...]


@dataclass(frozen=True)
class Monitors:
    items: tuple[MonitorView, ...]


@dataclass(frozen=True)
class StateNames:
    """What a state may say."""

    required: tuple[str, ...]
    numbers: tuple[str, ...]
    lists: tuple[str, ...]
    parameters: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class PlanSchema:
    """What a request to a plan may say."""

    plan: str
    settings: str  # digest
    units: str
    period: str  # between two steps
    columns: dict[str, str]  # names that the plan's files have, by what they are
    state: StateNames
    steps: int  # that a forecast must reach
    body: dict[str, Any]  # JSON Schema


@dataclass(frozen=True)
class CheckpointTold:
    schema: str
    count: int
    head: str


@dataclass(frozen=True)
class Overridden:
    """A person's action in place of a decision's; null: withdrawn."""

    id: str
    seq: int
    head: str
    overrides: str
    series: str
    action: Figure
    label: str
    off_grid: bool
    who: str
    at: str
    effective: Figure
    order: float | None
    certified: Literal[False]


@dataclass(frozen=True)
class Controlled:
    """A pause, or its end."""

    id: str
    seq: int
    head: str
    action: Literal["pause", "resume"]
    plan: str
    who: str
    why: str
    at: str
    until: str = ""  # not there: until somebody resumes it


@dataclass(frozen=True)
class Rearmed:
    id: str
    seq: int
    head: str
    plan: str
    series: str  # "": all together
    event: str
    evidence: Figure
    by: str
    why: str
    at: str


@dataclass(frozen=True)
class Report:
    """What was recorded of an outcome."""

    id: str
    seq: int
    decision: str
    step: int
    series: str
    replaces: str | None  # id of the first report of this step, which counts
    repeated: bool  # it was known already
    followed: bool | None  # null: nobody said what was taken
    rank: tuple[float, float] | None  # among the forecast's members; null: not watched


@dataclass(frozen=True)
class Reports:
    """One for each item, in their order."""

    items: tuple[Report, ...]


@dataclass(frozen=True)
class State:
    status: str


_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Answers, Decisions, Explained, Verified, Series, Plans, LogView, PlanSchema, CheckpointTold, Overridden,
        Controlled, Rearmed, Reports, Monitors, MonitorView, StreamView, State,
    )
}  # fmt: skip
# A record is what the verifier says it is; the description of this service does not repeat its format.
_OPEN = {
    "Record": {"type": "object", "description": "canonical bytes of a decision or refusal, see docs/records.md"},
    "Description": {"type": "object", "description": "OpenAPI"},
    "Lines": {"type": "string", "description": "JSON, one entry a line"},
    "Text": {"type": "string"},
}


def answer_schemas() -> dict[str, Any]:
    """Schemas of all answers, by name."""
    adapters = [(name, _MODE, TypeAdapter[Any](kind)) for name, kind in _KINDS.items()]
    found, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    out: dict[str, Any] = dict(definitions["$defs"])
    for (name, _), schema in found.items():
        if "$ref" not in schema:
            out[str(name)] = schema
    return {**out, **_OPEN}


def told(
    kind: str, status: int = 200, *, says: str = "as asked", media: str = "application/json",
    headers: dict[str, Any] | None = None,
) -> dict[int | str, dict[str, Any]]:  # fmt: skip
    """A success, for a route's `responses`."""
    if kind not in _KINDS and kind not in _OPEN:
        raise KeyError(kind)
    made = {"description": says, "content": {media: {"schema": {"$ref": _REF.format(model=kind)}}}}
    return {status: made if headers is None else {**made, "headers": headers}}


def limit(schemas: dict[str, Any], limits: Limits) -> None:
    """Write the limits of this service into the schemas of bodies."""
    for name in ("DecideBody", "OutcomesBody"):
        if name in schemas:
            schemas[name]["properties"]["items"]["maxItems"] = limits.items
    schemas["DecideItem"]["properties"]["series"]["maxLength"] = limits.series_length
    forecast = schemas["ForecastBody"]["properties"]
    for name in ("mean", "std", "members"):
        paths = next(kind for kind in forecast[name]["anyOf"] if kind["type"] == "array")
        paths["maxItems"] = limits.steps
        if name == "members":
            paths["maxItems"], paths["items"]["maxItems"] = limits.members, limits.steps
    levels = next(kind for kind in forecast["quantiles"]["anyOf"] if kind["type"] == "object")
    levels["additionalProperties"]["maxItems"] = limits.steps
