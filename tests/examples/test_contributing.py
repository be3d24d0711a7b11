"""CONTRIBUTING says which files a new part takes. Here each part is really added, to a copy of the tree, with those
files and no others, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 4


class Recipe(NamedTuple):
    """`files`: path -> what to put where, (anchor, text behind it), or the whole text of a new file. `named`: how
    CONTRIBUTING names those of the list that are written for people alone (a test, a page)."""

    section: str
    files: dict[str, list[tuple[str, str]] | str]
    program: str
    named: tuple[str, ...] = ()


GATE = Recipe(
    "Add a condition of the gate",
    {
        "src/ucsearch/dispatch/gate.py": [
            (
                "    time_budget_s: float | None = None",
                "__LINE__    max_expansions: int | None = None  # the search stayed small\n",
            ),
            ('    TASK_ERROR = "task_error"\n', '    TOO_BROAD = "too_broad"\n'),
        ],
        "src/ucsearch/dispatch/conditions.py": [
            (
                "lambda x: x.panel.released >= 0),\n",
                '    BuiltIn("expansions", "the search stayed small", Reason.TOO_BROAD,\n'
                '            lambda x: x.panel.plan.expansions, "<=", lambda x: x.gate.max_expansions),\n',
            ),
        ],
        "src/ucsearch/verify/gate.py": [
            (
                '"==", 1, "search_exhausted"),\n',
                '        (g.get("max_expansions"), "expansions", counted["expansions"], "<=",\n'
                '         g.get("max_expansions"), "too_broad"),\n',
            ),
            ("max_drift? ", "max_expansions? "),
            ('    "none", ', '"too_broad", '),
        ],
        "docs/certificate.md": [
            ("| row | holds when | cause |\n|---|---|---|\n", "| (`expansions`) | `<=` limit | `too_broad` |\n")
        ],
    },
    """
import ucsearch as uc
from ucsearch.records import decision_record
from ucsearch.settings import parse_settings
from ucsearch.tasks import Storage
from ucsearch.verify import verify_record
config = Storage(); task = config.task(); state = config.state(2.0)
trace = uc.Trace.from_members([[10.0, 30.0], [12.0, 28.0]])
for most, outcome, reason in ((10**6, "RELEASED", "none"), (0, "FALLBACK", "too_broad")):
    found = uc.decide(task, state, trace, uc.Exact(depth=2), gate=uc.Gate(max_expansions=most), engine="python")
    assert (found.outcome, found.reason) == (outcome, reason), found
    record, blobs = decision_record(found)
    verdict = verify_record(record, blobs, task)
    assert verdict.status == "valid", verdict
record["gate"]["settings"]["max_expansions"] = 7
assert verify_record(record, blobs, task).status != "valid"
assert uc.Gate(certificate=False, max_expansions=3).is_empty is False
text = b"[task]\\nname='storage'\\n[policy]\\nname='exact'\\ndepth=2\\n[gate]\\nmax_expansions=5\\n"
assert parse_settings(text).gate.max_expansions == 5
import runpy
runpy.run_path("scripts/layers.py", run_name="__main__")  # the page for users, from the comment beside the switch
assert "| `max_expansions` | the search stayed small |" in open("docs/dispatch.md").read()
""",
)

SPREAD = Recipe(
    "Add a spread",
    {
        "src/ucsearch/spreads.py": [
            (
                "_TABLE = (\n",
                '    Spread("half", 4, lambda v, w, f, s, t: 0.5 * math.sqrt(_squares(v, w, f, s, False)),\n'
                '           "0.5 * math.sqrt(square)", "all", _EVERYWHERE, math.inf, False),\n',
            ),
        ],
        "src/ucsearch/verify/replay.py": [
            ("SPREADS = (0, 1, 2, 3", ", 4"),
            (
                "        total += w * off * off\n",
                "    if kind == 4:\n        return first + shift, 0.5 * math.sqrt(total)\n",
            ),
        ],
    },
    """
import ucsearch as uc
from ucsearch.records import decision_record
from ucsearch.tasks import Storage
from ucsearch.verify import verify_record
config = Storage(); task = config.task(); state = config.state(2.0)
trace = uc.Trace.from_members([[10.0, 30.0], [12.0, 28.0], [9.0, 33.0]])
for mode in ("mean", "members"):
    half, whole = (uc.search(task, state, trace, uc.Exact(depth=2, risk=r, spread=s, mode=mode), engine="python")
                   for r, s in ((1.0, "half"), (0.5, "std")))
    assert half.action == whole.action and abs(half.score - whole.score) < 1e-9
    found = uc.decide(task, state, trace, uc.Exact(depth=2, risk=1.0, spread="half", mode=mode), engine="python")
    record, blobs = decision_record(found)
    assert verify_record(record, blobs, task).status == "valid", mode
from ucsearch.spreads import kernel_text
assert "spread[0] == 4" in kernel_text()
""",
    ("tests/unit/test_spreads.py",),
)

POLICY = Recipe(
    "Add a policy",
    {
        "src/ucsearch/comparators/idle.py": '''
"""The smallest allowed action at every step."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ucsearch.comparators.plain.common import finish, retain
from ucsearch.comparators.policies import Comparator
from ucsearch.engine.plain.outcome import Outcome, mark_root
from ucsearch.engine.plain.window import Window
from ucsearch.engine.registry import register
from ucsearch.engine.status import First


@dataclass(frozen=True, kw_only=True)
class Idle(Comparator):
    algorithm: ClassVar[str] = "idle"


def idle(window: Window, state: Any) -> Outcome:
    out, node = Outcome(window.size), window.root(state)
    for h in range(window.depth):
        candidates = window.score(node, h)
        if h == 0:
            mark_root(out, candidates)
        grown = window.extend(node, candidates[0], h) if candidates else None
        if grown is None:
            break
        if h == 0:
            out.flags[candidates[0].action] |= First.GENERATED
        node = grown
    else:
        retain(out, node, 0.0)
    finish(window, state, out)
    return out


register("idle", idle, "ucsearch.comparators", "templates/idle.py")
''',
        "src/ucsearch/comparators/templates/idle.py": "# the compiled version: `uc_panel`, the same operations\n",
        "src/ucsearch/comparators/__init__.py": [
            (
                "from ucsearch.comparators.exposure import",
                "__BEFORE__from ucsearch.comparators.idle import Idle as Idle\n",
            )
        ],
    },
    """
import ucsearch as uc
from ucsearch.comparators import Idle
from ucsearch.tasks import Storage
config = Storage(); task = config.task()
trace = uc.Trace.from_members([[10.0, 30.0], [12.0, 28.0]])
found = uc.search(task, config.state(2.0), trace, Idle(depth=2), engine="python")
allowed = [a for a in task.actions if task.feasible(config.state(2.0), a, task.params)]
assert found.action == min(allowed)
assert uc.certify(task, config.state(2.0), trace, Idle(depth=2), engine="python").action_index >= 0
""",
    ("tests/conformance",),
)

TASK = Recipe(
    "Add a task",
    {
        "src/ucsearch/tasks/kiosk.py": "__COPY__src/ucsearch/tasks/storage.py",
        "src/ucsearch/tasks/__init__.py": [
            ("from ucsearch.tasks.inventory import LeadTimeInventory\n", "from ucsearch.tasks.kiosk import Kiosk\n"),
            ("_ALL = (\n", '    TaskInfo("kiosk", Kiosk, "a kiosk", "price", "power", "tasks/kiosk.md"),\n'),
        ],
        "docs/tasks/kiosk.md": "__COPY__docs/tasks/storage.md",
    },
    """
import sys
import pytest
import ucsearch as uc
from ucsearch.tasks import TASKS
from ucsearch.settings import parse_settings
config = TASKS["kiosk"].kind(); task = config.task()
uc.check_task(task, config.state(**config.fit().start), [10.0, 30.0])
assert parse_settings(b"[task]\\nname='kiosk'\\n[policy]\\nname='exact'\\ndepth=2\\n").task == config
from ucsearch.scoreboard.problem import load_setup
assert load_setup("kiosk").task is task
from ucsearch.verify.trust import built_in_task
assert built_in_task(config.address()).source_hash == task.source_hash
asked = ["-k", "page or comments or bound or addresses or series", "-q", "-x", "-p", "no:cacheprovider"]
sys.exit(pytest.main(["tests/tasks/test_registry.py", *asked]))
""",
    ("tests/tasks",),
)

SUITES = "src/ucsearch/evaluation/suites"
SUITE = Recipe(
    "Add a suite or a benchmark",
    {
        f"{SUITES}/two-systems.toml": f"__COPY__{SUITES}/known-optimum.toml",
        f"{SUITES}/two-systems-mini.toml": f"__COPY__{SUITES}/known-optimum-mini.toml",
        "docs/benchmark-cards/two-systems.md": "__COPY__docs/benchmark-cards/known-optimum.md",
    },
    """
from pathlib import Path
from ucsearch.evaluation.suite import load_suite
suite = load_suite("two-systems-mini")
assert (suite.name, suite.card) == ("two-systems-mini", "two-systems")
from ucsearch.evaluation.kinds import runner_of, settings_of
assert callable(runner_of(suite.kind))
""",
)
RECIPES = {"gate": GATE, "spread": SPREAD, "policy": POLICY, "task": TASK, "suite": SUITE}


def apply(copy: Path, path: str, edits: list[tuple[str, str]] | str) -> None:
    target = copy / path
    if isinstance(edits, str):
        if edits.startswith("__COPY__"):
            old, new = Path(edits.removeprefix("__COPY__")).stem, Path(path).stem
            text = (ROOT / edits.removeprefix("__COPY__")).read_text(encoding="utf-8")
            text = re.sub(rf"\b{old.removesuffix('-mini')}\b", new.removesuffix("-mini"), text)
            text = re.sub(rf"\b{old.title()}\b", new.title(), text)
            edits = text.replace(f'"{old.title()}"', f'"{new.title()}"')
        target.write_text(edits, encoding="utf-8")
        return
    text = target.read_text(encoding="utf-8")
    for anchor, more in edits:
        assert anchor in text, (path, anchor)
        before, _, after = text.partition(anchor)
        if more.startswith("__LINE__"):
            line, _, after = after.partition("\n")
            text = f"{before}{anchor}{line}\n{more.removeprefix('__LINE__')}{after}"
        elif more.startswith("__BEFORE__"):
            text = f"{before}{more.removeprefix('__BEFORE__')}{anchor}{after}"
        else:
            text = before + anchor + more + after
    target.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what Python has compiled of it, valid for what stays as it is: else every process would compile it anew."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("src", "docs", "scripts", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.nbc", "*.nbi"))
    for name in ("CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_a_part_is_added_with_the_files_that_are_named(name: str, tree: Path) -> None:
    recipe = RECIPES[name]
    assert len(recipe.files) + len(recipe.named) <= MOST
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(f"## {recipe.section}\n")[2]
    section = section.partition("\n## ")[0]
    for path in (*recipe.files, *recipe.named):
        assert f"`{path}" in section or f"`{Path(path).parent}/<name>" in section or f"`{path}/" in section, path
    kept = {p: (tree / p).read_bytes() if (tree / p).exists() else None for p in recipe.files}
    try:
        for path, edits in recipe.files.items():
            apply(tree, path, edits)
        env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
        done = subprocess.run(
            [sys.executable, "-c", recipe.program], cwd=tree, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    finally:
        for path, data in kept.items():
            (tree / path).unlink() if data is None else (tree / path).write_bytes(data)
