"""How hard to prove and how to work: two records that the library, settings files and suites share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Literal, TypedDict, TypeVar

from ucsearch.errors import LARGEST, InputError

__all__ = ["Engine", "Kind", "Proof", "ProofWords", "Run", "RunWords", "no_more", "one_record"]

Kind = Literal["auto", "oracle", "bound"]
Engine = Literal["auto", "python", "compiled", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How hard to try to prove each decision."""

    kind: Kind = "auto"  # exact values, or admissible bounds
    eps_m: float = 0.0  # claimed bound on the model error of a plan's score
    node_budget: int = 2_000_000  # nodes per decision before it counts as not proved

    def __post_init__(self) -> None:
        if self.kind not in ("auto", "oracle", "bound"):
            raise InputError("kind", repr(self.kind), "'auto', 'oracle' or 'bound'")
        if not isinstance(self.eps_m, Real) or not 0.0 <= self.eps_m <= LARGEST:
            raise InputError("eps_m", self.eps_m, "a finite number of at least 0")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How the work is done; nothing here changes a decision, unless the gate has a time budget."""

    engine: Engine = "auto"  # auto compiles when there is enough to decide
    threads: int | None = None  # all cores when not given
    clock: Callable[[], float] | None = None  # seconds, for gate.time_budget_s; read from all threads
    progress: Callable[[int], None] | None = None  # told how many windows are done

    def __post_init__(self) -> None:
        if self.engine not in ("auto", "python", "compiled", "cuda"):
            raise InputError("engine", repr(self.engine), "'auto', 'python', 'compiled' or 'cuda'")

    @property
    def simulator(self) -> Literal["python", "compiled"]:
        """The engine of a walk's own steps: a second to compile, so only `python` means python."""
        return "python" if self.engine == "python" else "compiled"


class ProofWords(TypedDict, total=False):
    """The fields of `Proof` as keywords, as calls took them before there was a record."""

    kind: Kind
    eps_m: float
    node_budget: int


class RunWords(TypedDict, total=False):
    """The fields of `Run` as keywords."""

    engine: Engine
    threads: int | None
    clock: Callable[[], float] | None
    progress: Callable[[int], None] | None


R = TypeVar("R", Proof, Run)


def one_record(name: str, record: R | None, default: R, words: Any) -> R:
    """The record that was passed, or one of its fields as keywords, which are taken out of `words`; not both."""
    given = {f.name: words.pop(f.name) for f in fields(default) if f.name in words} if words else {}
    if record is None:
        return replace(default, **given) if given else default
    if not isinstance(record, type(default)):
        raise InputError(name, type(record).__name__, f"a uc.{type(default).__name__}")
    if given:
        raise InputError(next(iter(given)), "a keyword", f"nothing beside {name}=, which has it")
    return record


def no_more(words: Any) -> None:
    """Refuses keywords that no record has taken."""
    for name in words:
        raise TypeError(f"unexpected keyword argument {name!r}")
