"""A limit on the processor time of one entry. Nodes and calls are counted; what happens inside a call is not: with the
numbers of somebody's record a rule or a bound may count to a trillion."""

from __future__ import annotations

import signal
import threading
from types import FrameType

FREE_S = 5.0
A_NODE_S = 2e-4  # several times what a node of the budget takes
_AGAIN_S = 1.0  # foreign code may have kept the first one to itself


class OutOfTime(MemoryError):
    """As with memory, what is not known is not verified: whatever lets that error through lets this one through."""


def _stop(number: int, frame: FrameType | None) -> None:
    # Time that is up while the limit is lifted harms nobody; an error would leave it in force.
    if frame is None or frame.f_code is not limited_time.__exit__.__code__:
        raise OutOfTime


class limited_time:
    """At most so much processor time. Signals do it: in a program's main thread, where the system has
    them and nobody else uses this one; elsewhere there is no limit."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    def __enter__(self) -> None:
        alone = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
        if not alone or signal.getsignal(signal.SIGPROF) is not signal.SIG_DFL:
            return
        self._armed = True
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, self._seconds, _AGAIN_S)

    def __exit__(self, *of_error: object) -> None:
        if self._armed:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
