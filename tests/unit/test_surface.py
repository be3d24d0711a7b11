"""What a caller holds in hand: errors that travel, traces that cannot be bent, names that are checked, plain words."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from ucsearch import records
from ucsearch.decision import Filing
from ucsearch.errors import BudgetError, DataError, InputError, RecordError, TaskError

TRACE = uc.Trace.from_members(
    [[1.0, 2.0], [3.0, 5.0]], [1.0, 3.0], model="m", cutoff="2024-01-01", issued="2024-01-02", normalise=True
)
FIELDS = {f.name: getattr(TRACE, f.name) for f in dataclasses.fields(TRACE)}


@pytest.mark.parametrize(
    "error",
    [
        InputError("state.x", lambda: 0, "a number", index=(1, 2), hint="Do this."),
        BudgetError("depth", 0, "more"),
        TaskError("reward is None", task="t", window=1, step=2, action=3.0),
        RecordError("altered"),
        DataError("missing"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_travel_between_processes(error: Exception) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert set(vars(twin)) == set(vars(error))
        assert isinstance(twin, uc.UCSearchError)


def test_a_pickled_trace_is_the_same_and_cannot_be_written() -> None:
    hashed = TRACE.hash
    for twin in (pickle.loads(pickle.dumps(TRACE)), copy.deepcopy(TRACE)):
        assert twin.hash == hashed
        for name in ("members", "weights", "mean", "q", "u"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(twin, name)[...] = 7.0


def test_a_trace_bent_while_pickled_is_refused() -> None:
    rebuild, (values, recorded) = TRACE.__reduce__()
    assert rebuild(values, recorded).hash == TRACE.hash
    with pytest.raises(InputError, match="as pickled"):
        rebuild((*values[:7], "another model", *values[8:]), recorded)


BENT: dict[str, dict[str, Any]] = {
    "a false mean": {"mean": TRACE.mean + 1e-9},
    "weights that sum to 3": {"weights": TRACE.weights * 3.0},
    "a negative weight": {"weights": np.array([[-0.5, 1.5]])},
    "NaN among the members": {"members": np.where(TRACE.members == 5.0, np.nan, TRACE.members)},
    "another order": {"members": TRACE.members[:, ::-1]},
    "another shape": {"mean": TRACE.mean[:, :1]},
    "scores beside members": {"q": np.zeros((1, 2, 3)), "u": np.zeros((1, 2, 3))},
    "an unknown coupling": {"coupling": "loose"},
    "times that are no texts": {"cutoff": (3,)},
    "a panel that is none": {"panel": "no"},
    "too few dimensions": {"members": TRACE.members[0]},
}


@pytest.mark.parametrize("name", BENT)
def test_only_what_the_constructors_make_is_a_trace(name: str) -> None:
    assert uc.Trace(**FIELDS).hash == TRACE.hash
    with pytest.raises(InputError, match="trace"):
        uc.Trace(**{**FIELDS, **BENT[name]})


def test_arrays_handed_over_are_copied() -> None:
    own = np.array(TRACE.members)
    trace = uc.Trace(**{**FIELDS, "members": own})
    own[...] = 9.0
    assert trace.hash == uc.Trace(**FIELDS).hash
    assert trace.members.tobytes() == TRACE.members.tobytes()


@pytest.mark.parametrize("name", ["a false mean", "weights that sum to 3", "another order"])
def test_a_file_with_a_right_hash_and_a_false_content_is_refused(name: str, tmp_path: Path) -> None:
    false = uc.Trace.trusted(*{**FIELDS, **BENT[name]}.values())
    path = tmp_path / "trace.npz"
    false.save(path)
    with np.load(path) as file:
        assert json.loads(str(file["meta"]))["hash"] == false.hash
    with pytest.raises(InputError, match="trace file"):
        uc.Trace.load(path)


def test_names_of_statuses_are_printed() -> None:
    assert str(uc.Status.DEAD_END) == f"{uc.Status.DEAD_END}" == "DEAD_END"
    assert uc.Status.DEAD_END == 3


ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


def test_what_is_public_is_there_and_listed() -> None:
    assert set(dir(uc)) >= set(uc.PACKAGES) | set(uc.__all__)
    for name in uc.__all__:
        assert getattr(uc, name).__doc__, name
    for package in uc.PACKAGES:
        if package in ("client", "lab"):
            continue  # an extra; a folder of packages
        module = getattr(uc, package)
        assert module.__all__, package
        for name in module.__all__:
            assert hasattr(module, name), f"{package}.{name}"


@pytest.mark.parametrize("page", PAGES)
def test_documents_use_what_is_public(page: str) -> None:
    """An import in a document is a promise."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        for module, names in re.findall(r"^\s*from (ucsearch[\w.]*) import (.+)$", code, re.M):
            package = module.removeprefix("ucsearch").removeprefix(".")
            assert package == "" or package.split(".")[0] in uc.PACKAGES, f"{page}: {module} is not public"
            public = set(uc.__all__) | set(uc.PACKAGES) if package == "" else set(import_module(module).__all__)
            for name in (part.split(" as ")[0].strip() for part in names.strip("()").split(",")):
                assert name in public, f"{page}: {module}.{name} is not public"


@pytest.mark.parametrize(("call", "most"), [(uc.decide, 12), (uc.decide_panel, 13), (uc.certify, 9), (uc.search, 9)])
def test_calls_take_few_arguments(call: Any, most: int) -> None:
    taken = [p for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD]
    assert len(taken) <= most


def test_proof_run_and_filing_come_as_records(tmp_path: Path) -> None:
    from tests.kit.templates import TEMPLATES, Clock

    task, state, policy = TEMPLATES["clock"].task, Clock(0.0), uc.UCBeam(depth=2)
    proof, run = uc.Proof(kind="oracle", eps_m=0.01, node_budget=500), uc.Run(engine="python")
    with uc.AuditLog(tmp_path / "log.db") as log:
        filing = Filing(log, series="a", where="m:T", request="r1")
        one = uc.decide(task, state, TRACE, policy, proof=proof, run=run, log=filing)
        again = uc.decide(task, state, TRACE, policy, proof=proof, run=run, log=filing)
        assert one.record_id == again.record_id != ""
        panel = uc.decide_panel(task, [state], TRACE, policy, proof=proof, run=run, log=filing)
        assert panel.records == (one.record_id,)
    assert one.certificate is not None
    assert (one.certificate.kind, one.certificate.eps_m, one.certificate.plan.engine) == ("oracle", 0.01, "python")
    first = uc.certify(task, state, TRACE, policy, proof=proof, run=run)
    assert (first.gap, first.kind, first.eps_m) == (one.certificate.gap, "oracle", 0.01)
    for call, given in ((uc.decide, state), (uc.certify, state), (uc.decide_panel, [state])):
        for name, wrong in (("proof", run), ("run", proof), ("proof", {"eps_m": 0.1}), ("run", "python")):
            with pytest.raises(InputError, match=f"{name}.*expected a uc"):
                call(task, given, TRACE, policy, **{name: wrong})
        with pytest.raises(TypeError, match="eps_m"):
            call(task, given, TRACE, policy, eps_m=0.1)
    for wrong in (dict(kind="none"), dict(eps_m=-1.0), dict(eps_m=float("nan"))):
        with pytest.raises(InputError):
            uc.Proof(**wrong)
    with pytest.raises(InputError):
        uc.Run(engine="fast")


def test_there_is_one_audit_log() -> None:
    assert records.AuditLog is uc.AuditLog


def test_labels_are_escaped_in_html() -> None:
    from tests.kit.templates import TEMPLATES, Clock

    clock = TEMPLATES["clock"].task
    labels = [f"<script>alert({i})</script>" for i in range(len(clock.actions))]
    task = dataclasses.replace(clock, name="<b>clock</b>", labels=labels)
    html = uc.search(task, Clock(0.0), TRACE, uc.UCBeam(depth=2), engine="python")._repr_html_()
    assert "<script>" not in html
    assert "<b>clock" not in html
    assert "&lt;script&gt;alert(0)" in html


MISSPELT = "import ucsearch as uc\nuc.serach\n"
RIGHT = """import ucsearch as uc
reveal_type(uc.search)
reveal_type(uc.__version__)
uc.Trace.from_members([[1.0]]).hash.upper()
"""


def checked(tool: list[str], text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "snippet.py"
    path.write_text(text)
    return subprocess.run([sys.executable, "-m", *tool, str(path)], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(["mypy", "--strict", "--follow-imports=silent", "--cache-dir"], marks=pytest.mark.slow),
        pytest.param(["pyright"], marks=pytest.mark.slow),
    ],
    ids=lambda t: t[0],
)
def test_a_misspelt_name_fails_in_a_type_checker(tool: list[str], tmp_path: Path) -> None:
    pytest.importorskip(tool[0])
    if tool[0] == "mypy":
        tool = [*tool, str(tmp_path / "cache")]
    wrong = checked(tool, MISSPELT, tmp_path)
    assert wrong.returncode == 1, wrong.stderr
    assert "serach" in wrong.stdout
    right = checked(tool, RIGHT, tmp_path)
    assert right.returncode == 0, right.stdout
