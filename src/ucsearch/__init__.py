"""ucsearch: from forecasts with uncertainty to decisions under hard rules.

What is public is on this screen: the names in `_HOME` and, of the sub-packages in `PACKAGES`, what their `__all__`
lists. Everything else may change without notice. Names are loaded when first used, so importing the package is cheap.
"""

import sys

# `python -m ucsearch.verify` stands in the folder of a file that may be hostile, and Python looks there first: a
# planted json.py would be run. Nothing, not even __future__, is imported before this, the first of our code.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and any("ucsearch.verify" in part for part in sys.orig_argv[1:]):
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucsearch.allocation.api import Allocation as Allocation
    from ucsearch.allocation.api import allocate as allocate
    from ucsearch.allocation.problem import Shared as Shared
    from ucsearch.certificate.api import certify as certify
    from ucsearch.certificate.api import certify_panel as certify_panel
    from ucsearch.certificate.api import warm as warm
    from ucsearch.check import check_task as check_task
    from ucsearch.decision.api import decide as decide
    from ucsearch.decision.api import decide_panel as decide_panel
    from ucsearch.decision.decision import Decision as Decision
    from ucsearch.decision.decision import DecisionPanel as DecisionPanel
    from ucsearch.decision.decision import Outcome as Outcome
    from ucsearch.decision.gate import Calibration as Calibration
    from ucsearch.decision.gate import Gate as Gate
    from ucsearch.decision.gate import Reason as Reason
    from ucsearch.engine.api import search as search
    from ucsearch.engine.api import search_panel as search_panel
    from ucsearch.engine.arrays import Status as Status
    from ucsearch.engine.closed_loop.average import average_cost as average_cost
    from ucsearch.engine.closed_loop.solve import solve as solve
    from ucsearch.engine.plan import Plan as Plan
    from ucsearch.errors import InputError as InputError
    from ucsearch.errors import TaskError as TaskError
    from ucsearch.errors import UCSearchError as UCSearchError
    from ucsearch.policies import MCTS as MCTS
    from ucsearch.policies import CertifiedBeam as CertifiedBeam
    from ucsearch.policies import ConstrainedBeam as ConstrainedBeam
    from ucsearch.policies import Exact as Exact
    from ucsearch.policies import ParetoBeam as ParetoBeam
    from ucsearch.policies import Proof as Proof
    from ucsearch.policies import Run as Run
    from ucsearch.policies import UCBeam as UCBeam
    from ucsearch.records.log import AuditLog as AuditLog
    from ucsearch.task import Condition as Condition
    from ucsearch.task import Continuation as Continuation
    from ucsearch.task import Fill as Fill
    from ucsearch.task import Task as Task
    from ucsearch.trace import Trace as Trace

    __version__: str

_HOME = {
    "Allocation": "allocation.api",
    "AuditLog": "records.log",
    "Calibration": "decision.gate",
    "CertifiedBeam": "policies",
    "Condition": "task",
    "ConstrainedBeam": "policies",
    "Continuation": "task",
    "Decision": "decision.decision",
    "DecisionPanel": "decision.decision",
    "Exact": "policies",
    "Fill": "task",
    "Gate": "decision.gate",
    "InputError": "errors",
    "MCTS": "policies",
    "Outcome": "decision.decision",
    "ParetoBeam": "policies",
    "Plan": "engine.plan",
    "Proof": "policies",
    "Reason": "decision.gate",
    "Run": "policies",
    "Shared": "allocation.problem",
    "Status": "engine.arrays",
    "Task": "task",
    "TaskError": "errors",
    "Trace": "trace",
    "UCBeam": "policies",
    "UCSearchError": "errors",
    "allocate": "allocation.api",
    "average_cost": "engine.closed_loop.average",
    "certify": "certificate.api",
    "certify_panel": "certificate.api",
    "check_task": "check",
    "decide": "decision.api",
    "decide_panel": "decision.api",
    "search": "engine.api",
    "search_panel": "engine.api",
    "solve": "engine.closed_loop.solve",
    "warm": "certificate.api",
}

PACKAGES = (
    "adapters", "certificate", "check", "client", "decision", "engine", "forecast", "lab", "monitor", "planner",
    "records", "replay", "scale", "tasks", "trace", "verify",
)  # fmt: skip

__all__ = sorted(_HOME)


if not TYPE_CHECKING:  # typed, it would make every misspelt name an `Any`

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("ucsearch")
        if name in PACKAGES:  # some need an extra
            return import_module(f"ucsearch.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'ucsearch' has no attribute {name!r}")
        value = getattr(import_module(f"ucsearch.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, *PACKAGES, "__version__"]
