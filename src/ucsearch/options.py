"""How hard to prove and how to work: two records that the library, settings files and suites share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Literal

from ucsearch.errors import LARGEST, InputError

__all__ = ["PROOF", "RUN", "Engine", "Kind", "Proof", "Run", "check_options"]

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


PROOF, RUN = Proof(), Run()  # the defaults


def check_options(proof: object, run: object) -> None:
    """Raise `InputError` unless these are a `Proof` and a `Run`."""
    for name, value, kind in (("proof", proof, Proof), ("run", run, Run)):
        if not isinstance(value, kind):
            raise InputError(name, type(value).__name__, f"a uc.{kind.__name__}")
