"""A limit of processor time strikes inside its block or not at all."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from ucsearch.verify.clock import OutOfTime, limited_time

AT_ONCE_S = 1e-6
A_WHILE_S = 0.02  # several ticks of the system's clock


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_what_runs_too_long_is_stopped() -> None:
    with pytest.raises(OutOfTime), limited_time(AT_ONCE_S):
        spin(5.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL
    spin(A_WHILE_S)


def test_time_that_is_up_while_the_limit_is_lifted_leaves_nothing_behind() -> None:
    """The signal is given its chance at every place of the way out."""
    limit = limited_time(1000.0)
    struck = 0

    def strike(frame: object, event: str, arg: object) -> object:
        nonlocal struck
        if getattr(frame, "f_code", None) is limited_time.__exit__.__code__ and event in ("call", "line"):
            if signal.getsignal(signal.SIGPROF) is not signal.SIG_DFL:
                struck += 1
                signal.getsignal(signal.SIGPROF)(signal.SIGPROF, frame)  # type: ignore[operator, misc, arg-type]
            return strike
        return None

    limit.__enter__()
    before = sys.gettrace()
    sys.settrace(strike)
    try:
        limit.__exit__(None, None, None)
    finally:
        sys.settrace(before)
    assert struck >= 2
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
