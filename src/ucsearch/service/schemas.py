"""What requests may say (pydantic models) and what is answered (frozen records). Numbers of answers are as in records:
None is not known, "inf" is unbounded, big whole numbers are text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from ucsearch.decision.decision import Outcome
from ucsearch.decision.gate import Reason

__all__ = ["plain"]

MOST_ITEMS = 10_000  # that limits.items may be set to
_LAST_YEAR = 2199  # a later one is a mark for "never", not a time of a forecast


def plain(value: Any) -> Any:
    """An answer as JSON-able content."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


# Requests


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


Number = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[list[Number | None], Field(fail_fast=True)]
Why = Annotated[str, Field(min_length=3, max_length=500)]
Time = Annotated[str, Field(max_length=64)]
Moment = Annotated[Time, AfterValidator(_is_time)]
Id = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# An action of several numbers, such as what is ordered from each of two suppliers.
Several = Annotated[list[Number], Field(min_length=2, max_length=64)]
# Checked by `routes.decisions.rows_of`, which stops at the first that is wrong: pydantic would collect them all.
StateValue = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"}, {"type": "string"}, {"type": "null"},
                {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
            ]
        }
    ),
]  # fmt: skip


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
    state: dict[str, StateValue]
    forecast: ForecastBody


class DecideBody(_Body):
    """Series to be decided together: all are recorded in one commit, or none."""

    items: Annotated[list[DecideItem], Field(min_length=1, max_length=MOST_ITEMS)]


class OverrideBody(_Body):
    """A person's action in place of the decided one; null withdraws."""

    action: Number | Annotated[str, Field(max_length=200)] | Several | None
    why: Why
    expects: Id
    force: bool = False


class AllocateItem(_Body):
    """A decision that takes part: the columns that the plan's `[shared]` names, such as litres and truck."""

    decision: Id
    columns: dict[str, Number | Annotated[str, Field(max_length=200)]] = {}


class AllocateBody(_Body):
    """Decisions that share the plan's limits; `limits` are today's amounts where they differ from the settings."""

    items: Annotated[list[AllocateItem], Field(min_length=1, max_length=MOST_ITEMS)]
    limits: dict[str, Number | dict[str, Number]] = {}


class OutcomeItem(_Body):
    """What came of a decision, `step` periods later."""

    decision: Id
    step: Annotated[int, Field(ge=1, le=100_000)] = 1
    value: Number | Annotated[list[Number], Field(min_length=1, max_length=64)]
    observed_at: Time
    taken: Number | Several | None = None


class OutcomesBody(_Body):
    items: Annotated[list[OutcomeItem], Field(min_length=1, max_length=MOST_ITEMS)]


class PauseBody(_Body):
    why: Why
    until: Time | None = None


class ResumeBody(_Body):
    why: Why


class RearmBody(_Body):
    """Re-arm tripped streams: these series ("" for all together), or without `streams` all that have tripped."""

    streams: Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(min_length=1, max_length=10_000)] | None = (
        None
    )
    why: Why
    accept: bool = False


BODIES: tuple[type[_Body], ...] = (
    DecideBody, AllocateBody, OverrideBody, OutcomesBody, PauseBody, ResumeBody, RearmBody,
)  # fmt: skip

# Answers

Figure = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]})]
_SEVERAL = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}
Action = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, _SEVERAL, {"type": "null"}]})]
Reported = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]})
]
Record = Annotated[
    Any,
    WithJsonSchema(
        {"type": "object", "description": "canonical bytes of a decision or refusal; see docs/reference/log.md"}
    ),
]


@dataclass(frozen=True)
class MonitorState:
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
    action: Action  # null: nothing leaves
    label: str
    order: float | None  # units that the action orders; null where the task does not order
    reason: Reason
    cause: Reason
    sentence: str
    margin: Figure
    regret_bound: Figure
    pass_kind: str
    plan: str
    valid_until: str
    monitor: MonitorState


@dataclass(frozen=True)
class Answers:
    """One for each item, in their order."""

    items: tuple[Answer, ...]


@dataclass(frozen=True)
class OverrideView:
    """A person's replacement."""

    id: str
    seq: int
    who: str
    why: str
    at: str
    action: Action  # null: withdrawn
    label: str
    off_grid: bool
    forced: bool  # the rules refuse it, or it is off the unit
    order: float | None  # units, where they differ from the action


@dataclass(frozen=True)
class DecisionLine:
    """A row of a table of decisions."""

    id: str
    seq: int
    kind: str  # decision or refusal
    plan: str
    series: str
    outcome: str
    reason: str
    action: Action
    label: str
    effective: Action  # what counts: the action, or the last override's
    overridden: bool
    sentence: str
    now: str  # when it was decided
    valid_until: str


@dataclass(frozen=True)
class DecisionPage:
    """A page of decisions, newest first, as it is read."""

    items: tuple[DecisionLine, ...]
    next: int | None  # `before` of the next page


@dataclass(frozen=True)
class Decisions:
    """A page of decisions, newest first."""

    items: tuple[DecisionLine, ...]
    next: str | None  # address of the next page


@dataclass(frozen=True)
class OutcomeView:
    """What was reported of a decision."""

    id: str
    seq: int
    decision: str
    step: int
    value: Reported
    observed_at: str
    reported_by: str
    taken: Action
    followed: bool | None  # null: nobody said
    replaces: str  # id of the first report; "" where it is the first, which counts


@dataclass(frozen=True)
class DecisionView:
    """One decision with all that belongs to it."""

    line: DecisionLine
    answer: Answer
    record: dict[str, Any]
    digest: str
    head: str
    written_at: str | None
    overrides: tuple[OverrideView, ...]
    outcomes: tuple[OutcomeView, ...]
    newest: bool  # of its series
    effective_label: str
    expects: str  # what an override must expect
    effective_order: float | None


@dataclass(frozen=True)
class Explained:
    """A decision in words, and its forecast as SVG ("" without one)."""

    title: str
    text: str
    svg: str


@dataclass(frozen=True)
class Verified:
    """What the verifier says."""

    status: str
    where: str
    message: str


@dataclass(frozen=True)
class StreamView:
    """The monitor of one series, or of all together."""

    series: str  # "" for all together
    state: str  # armed or tripped
    evidence: Figure
    limit: float
    about: str  # what carries the evidence
    outcomes: int  # since it was armed
    since: str = ""  # when it tripped; "" while it is armed
    next: str = ""  # what to do about it; "" while there is nothing


@dataclass(frozen=True)
class SeriesView:
    """Current state of a series."""

    series: str
    newest: DecisionLine
    expects: str  # what an override must expect
    effective: Action
    effective_label: str
    effective_order: float | None
    certified: bool  # the action that counts is the released one
    valid_until: str
    expired: bool
    overrides: tuple[OverrideView, ...]
    outcomes: tuple[OutcomeView, ...]  # of its last decisions
    recent: tuple[DecisionLine, ...]  # newest first


@dataclass(frozen=True)
class Series(SeriesView):
    """Current state of a series, with its monitor."""

    monitor: StreamView | None
    overdue: int


@dataclass(frozen=True)
class PlanView:
    name: str
    settings_digest: str
    task: str
    policy: str
    engine: str
    valid_for_s: float
    paused: bool
    pause: dict[str, str] | None
    monitored: bool
    today: dict[str, int]  # decisions by outcome since midnight UTC
    reasons: dict[str, int]  # the same by reason, of those that were not released
    whole: bool  # they are all; False: there were more than could be counted after a start


@dataclass(frozen=True)
class Plans:
    items: tuple[PlanView, ...]


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
class RealisedView:
    """The last followed decisions of a plan."""

    decisions: int
    realised: float | None  # mean reward of the first period; null without any
    expected: float | None  # the same as the records expected it
    eps_c: float | None


@dataclass(frozen=True)
class EventView:
    """A trip or a re-arming."""

    seq: int
    at: str
    series: str
    event: str
    evidence: Figure
    about: str
    by: str  # "" where it followed from the outcomes
    why: str


@dataclass(frozen=True)
class MonitorView:
    """The monitor of a plan."""

    plan: str
    state: str  # off, armed, tripped (all together), or partly (some series)
    pool: StreamView | None  # all series together
    tripped: int  # series
    streams: tuple[StreamView, ...]  # by evidence
    coverage: float | None  # of the last outcomes, of a range that should hold 0.9
    histogram: tuple[int, ...]  # the same, by tenth of their rank
    overdue: int
    events: tuple[EventView, ...]  # newest first
    realised: RealisedView | None = None  # what followed decisions were worth; null where nothing was asked


@dataclass(frozen=True)
class Monitors:
    items: tuple[MonitorView, ...]


@dataclass(frozen=True)
class FileView:
    """One file of a log that was rotated, or the only one."""

    name: str
    count: int  # entries
    head: str
    bytes: int | None  # null: in a database


@dataclass(frozen=True)
class LogView:
    count: int  # entries of the file that is written to
    head: str
    format: int
    checkpoint_count: int | None
    checkpoint_age_s: float | None
    files: tuple[FileView, ...] = ()  # from the oldest that is still there to the one that is written to


@dataclass(frozen=True)
class CheckpointView:
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
    action: Action
    label: str
    off_grid: bool
    forced: bool  # the rules refuse it, or it is off the unit
    who: str
    at: str
    effective: Action
    order: float | None
    certified: Literal[False] = False


@dataclass(frozen=True)
class SharedLimitView:
    """A limit that series share."""

    name: str
    limit: Figure
    used: Figure
    price: Figure  # currency that one more unit is worth
    next: tuple[str, ...]  # series that would get more of it first


@dataclass(frozen=True)
class ShareView:
    """What a series gets."""

    series: str
    decision: str
    outcome: str
    action: Action
    order: float | None
    alone: Action  # without the limits
    limit: str  # that made it less; "" where none did


@dataclass(frozen=True)
class Allocated:
    """Who gets how much of the limits that series share."""

    id: str
    seq: int
    head: str
    plan: str
    at: str | None  # when it was written
    served: bool  # False: nobody gets more than the fallback
    reason: str
    limits: tuple[SharedLimitView, ...]
    items: tuple[ShareView, ...]
    proved: str  # in words


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
    until: str = ""  # "": until somebody resumes it


@dataclass(frozen=True)
class Rearmed:
    """A stream that was started anew."""

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
class RearmedStreams:
    items: tuple[Rearmed, ...]


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
class Health:
    status: str
