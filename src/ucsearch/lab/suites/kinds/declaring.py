"""What kinds say before a test part is opened, and the families they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ucsearch.lab.suites.job import Job
from ucsearch.lab.suites.kinds.series import Family, load_family
from ucsearch.lab.suites.kinds.series_files import load_replaced
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import declare
from ucsearch.lab.suites.suite import Suite

__all__ = ["declaration", "family_of"]


def declaration(
    suite: Suite, job: Job, families: Mapping[str, str], candidate: Mapping[str, Any], *, form: str, metric: str,
    utility: str, windows: Mapping[str, int], **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """The selection record of a suite that asks for no promotion: what was fixed, or what validation chose, is declared
    with its figures. (The promotion gate's own selection judges certificates, which is not what is chosen here.)"""
    protocol = Protocol(
        suite=suite.name, seed=suite.seed, form=form, metric=metric, utility=utility, families=dict(families),
        windows=dict(windows), gate=False, **more,
    )  # fmt: skip
    return declare(protocol, candidate, card_sha256=job.identity["card_sha256"], suite_sha256=suite.sha256)


def family_of(name: str, job: Job) -> Family:
    """The series of a family: the built-in data, or what the job was given in their place."""
    other = job.families.get(name)
    return load_family(name, job.data_dir) if other is None else load_replaced(name, other)
