"""What requests may say and what answers hold: the models that the OpenAPI description is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from ucsearch.dispatch.decision import Outcome
from ucsearch.dispatch.gate import Reason
from ucsearch.service.problems import CODES, MEDIA
from ucsearch.service.reads import DecisionLine, Figure, PlanView, SeriesView
from ucsearch.service.watching import MonitorView, StreamView

MOST_ITEMS = 10_000  # which limits.items may be set to
Number = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[list[Number | None], Field(fail_fast=True)]
Why = Annotated[str, Field(min_length=3, max_length=500)]
Time = Annotated[str, Field(max_length=64)]

_LAST_YEAR = 2199  # a later one is a mark for "never", not a time of a forecast


def _is_time(text: str) -> str:
    """A date or time of ISO 8601 as it was given, or an error."""
    try:
        moment = datetime.fromisoformat(text)
        good = (moment if moment.tzinfo is None else moment.astimezone(UTC)).year <= _LAST_YEAR
    except (ValueError, OverflowError):
        good = False
    if not good:
        expected = f"a date or time of ISO 8601 such as 2024-05-20T06:00:00+00:00, up to {_LAST_YEAR}"
        raise PydanticCustomError("time", "saw {seen}, expected {expected}", {"seen": repr(text), "expected": expected})
    return text


Moment = Annotated[Time, AfterValidator(_is_time)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ForecastBody(_Body):
    """Members (J lists of H values), or mean and std, or quantiles by level; H values each."""

    members: Annotated[list[Numbers], Field(fail_fast=True)] | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    quantiles: dict[str, Numbers] | None = None
    issued: Moment | None = None
    cutoff: Moment | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


class DecideItem(_Body):
    series: Annotated[str, Field(min_length=1)]
    state: dict[str, Number | str | Numbers | None]
    forecast: ForecastBody


class DecideBody(_Body):
    """Series to be decided together: all are recorded in one commit, or none."""

    items: Annotated[list[DecideItem], Field(min_length=1, max_length=MOST_ITEMS)]


class OverrideBody(_Body):
    """A person's action in place of the decided one; null withdraws."""

    action: Number | Annotated[str, Field(max_length=200)] | None
    why: Why
    expects: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    force: bool = False


class OutcomeItem(_Body):
    """What came of a decision, `step` periods later."""

    decision: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    step: Annotated[int, Field(ge=1, le=100_000)] = 1
    value: Number | Annotated[list[Number], Field(min_length=1, max_length=64)]
    observed_at: Time
    taken: Number | None = None


class OutcomesBody(_Body):
    items: Annotated[list[OutcomeItem], Field(min_length=1, max_length=MOST_ITEMS)]


class PauseBody(_Body):
    why: Why
    until: Time | None = None


class ResumeBody(_Body):
    why: Why


class RearmBody(_Body):
    """Start a tripped stream anew; without a series the pool of the plan."""

    series: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    why: Why
    accept: bool = False


BODIES: tuple[type[_Body], ...] = (DecideBody, OverrideBody, OutcomesBody, PauseBody, ResumeBody, RearmBody)

# Answers

Record = Annotated[
    Any, WithJsonSchema({"type": "object", "description": "canonical bytes of a decision or refusal; see docs/log.md"})
]


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
    columns: dict[str, Any]  # names that the plan's files have, by what they are
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


KEY_HEADER = {
    "name": "Idempotency-Key", "in": "header", "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]{1,128}$"},
    "description": "names the request: the same key gives the same answer, whatever happened in between",
}  # fmt: skip
RETRY_AFTER = {"description": "seconds", "required": True, "schema": {"type": "integer", "minimum": 0}}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "where", "request"],
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(CODES)}, "detail": {"type": "string"},
        "where": {"type": "array", "items": {"type": "string"}, "maxItems": 20}, "request": {"type": "string"},
        "allowed": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip


def body_of(kind: type[BaseModel], *, keyed: bool = True) -> dict[str, Any]:
    """The body of an endpoint that reads it itself, because its bytes are hashed and searched for doubled keys."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": body, **({"parameters": [KEY_HEADER]} if keyed else {})}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers besides success that a route may give."""
    out: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        codes = [code for code, kind in CODES.items() if kind.status == status]
        out[status] = {
            "description": ", ".join(codes),
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status in (429, 503):
            out[status]["headers"] = {"Retry-After": RETRY_AFTER}
    return out
