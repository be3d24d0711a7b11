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
    from ucsearch import gym as gym
    from ucsearch.allocation.api import Allocation as Allocation
    from ucsearch.allocation.api import allocate as allocate
    from ucsearch.allocation.shared import Shared as Shared
    from ucsearch.certificate.api import certify as certify
    from ucsearch.certificate.api import certify_panel as certify_panel
    from ucsearch.certificate.panel import CertifiedPanel as CertifiedPanel
    from ucsearch.certificate.record import Certificate as Certificate
    from ucsearch.certificate.warm import warm as warm
    from ucsearch.check import check_task as check_task
    from ucsearch.dispatch.api import Filing as Filing
    from ucsearch.dispatch.api import decide as decide
    from ucsearch.dispatch.api import decide_panel as decide_panel
    from ucsearch.dispatch.decision import Decision as Decision
    from ucsearch.dispatch.decision import DecisionPanel as DecisionPanel
    from ucsearch.dispatch.decision import Outcome as Outcome
    from ucsearch.dispatch.gate import Calibration as Calibration
    from ucsearch.dispatch.gate import Gate as Gate
    from ucsearch.dispatch.gate import Reason as Reason
    from ucsearch.dispatch.view import frame_of as frame_of
    from ucsearch.effort import Proof as Proof
    from ucsearch.effort import Run as Run
    from ucsearch.engine.api import search as search
    from ucsearch.engine.api import search_panel as search_panel
    from ucsearch.engine.panel import PanelPlan as PanelPlan
    from ucsearch.engine.plan import Plan as Plan
    from ucsearch.engine.status import Status as Status
    from ucsearch.errors import InputError as InputError
    from ucsearch.errors import TaskError as TaskError
    from ucsearch.errors import UCSearchError as UCSearchError
    from ucsearch.joint import join_traces as join_traces
    from ucsearch.policies import MCTS as MCTS
    from ucsearch.policies import CertifiedBeam as CertifiedBeam
    from ucsearch.policies import ConstrainedBeam as ConstrainedBeam
    from ucsearch.policies import Exact as Exact
    from ucsearch.policies import ParetoBeam as ParetoBeam
    from ucsearch.policies import UCBeam as UCBeam
    from ucsearch.records.audit import AuditLog as AuditLog
    from ucsearch.task import Condition as Condition
    from ucsearch.task import Continuation as Continuation
    from ucsearch.task import Task as Task
    from ucsearch.task import View as View
    from ucsearch.trace import Trace as Trace

    __version__: str

_HOME = {
    "Allocation": "allocation.api",
    "AuditLog": "records.audit",
    "Calibration": "dispatch.gate",
    "Certificate": "certificate.record",
    "CertifiedBeam": "policies",
    "CertifiedPanel": "certificate.panel",
    "Condition": "task",
    "ConstrainedBeam": "policies",
    "Continuation": "task",
    "Decision": "dispatch.decision",
    "DecisionPanel": "dispatch.decision",
    "Exact": "policies",
    "Filing": "dispatch.api",
    "Gate": "dispatch.gate",
    "InputError": "errors",
    "MCTS": "policies",
    "Outcome": "dispatch.decision",
    "PanelPlan": "engine.panel",
    "ParetoBeam": "policies",
    "Plan": "engine.plan",
    "Proof": "effort",
    "Reason": "dispatch.gate",
    "Run": "effort",
    "Shared": "allocation.shared",
    "Status": "engine.status",
    "Task": "task",
    "TaskError": "errors",
    "Trace": "trace",
    "UCBeam": "policies",
    "UCSearchError": "errors",
    "View": "task",
    "allocate": "allocation.api",
    "certify": "certificate.api",
    "certify_panel": "certificate.api",
    "check_task": "check",
    "decide": "dispatch.api",
    "decide_panel": "dispatch.api",
    "frame_of": "dispatch.view",
    "join_traces": "joint",
    "search": "engine.api",
    "search_panel": "engine.api",
    "warm": "certificate.warm",
}

PACKAGES = (
    "adapters", "backtest", "check", "client", "comparators", "data", "evaluation", "forecast", "gym", "inventory",
    "learned", "monitor", "pipeline", "records", "scale", "settings", "tasks", "verify",
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
