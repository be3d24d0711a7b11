"""Mutation check: change one operator, number, truth value or check at a time and see whether the tests notice.

    python scripts/mutants.py                                  # all: days of processor time
    python scripts/mutants.py --sample 144 --seed 1            # so many, as many from each group; the same ones again
    python scripts/mutants.py src/ucsearch/verify/read.py      # these modules only
    python scripts/mutants.py --list                           # what would be changed
    python scripts/mutants.py --quick                          # without the property tests: a few more survive

Every mutant is written into a temporary copy of the tree (one per group) and the tests that belong to its module are
run there, in forked processes with a time limit; the working tree is not touched. Survivors must be listed with a
reason in scripts/mutants_reasons.toml. Exit code 0: every survivor has a reason, and at least 90 % of all mutants were
killed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

ROOT = Path(__file__).resolve().parents[1]
REASONS = ROOT / "scripts" / "mutants_reasons.toml"
COPIED = ("src", "tests", "docs", "pyproject.toml")
SHARE = 0.90
SOURCE = "src/ucsearch"

# By group: which modules it has, under SOURCE; patterns, with a blank between.
MODULES = {
    "gate": "decision/gate.py",
    "certificate": "certificate/*.py",
    "members bound": "certificate/members/*.py",
    "engine/plain": "engine/plain/*.py",
    "verify": "verify/*.py verify/*/*.py",
    "trace": "trace/*.py",
    "files": "planner/files/table.py planner/files/columns.py planner/files/numbers.py",
}
# By group: the files of tests that are about it.
TESTS = {
    "trace": [
        "tests/trace/test_trace.py",
        "tests/trace/test_joint.py",
        "tests/engine/test_closed.py",
    ],
    "files": [
        "tests/planner/test_tables.py",
        "tests/planner/test_forecast_files.py",
    ],
    "gate": [
        "tests/decision/test_dispatch.py",
        "tests/verify/test_verify.py",
        "tests/certificate/test_tolerance.py",
        "tests/certificate/test_member_feasible.py",
        "tests/decision/test_final_check.py",
        "tests/decision/test_time_budget.py",
        "tests/engine/test_closed.py",
    ],
    "certificate": [
        "tests/certificate/test_blocks.py",
        "tests/certificate/test_tolerance.py",
        "tests/certificate/test_member_feasible.py",
        "tests/certificate/test_edges_of_rounding.py",
        "tests/verify/test_verify_arithmetic.py",
        "tests/decision/test_dispatch.py",
        "tests/decision/test_time_budget.py",
        "tests/verify/test_verify.py",
        "tests/verify/test_verify_kinds.py",
        "tests/engine/test_closed.py",
        "tests/engine/test_warm.py",
        "tests/decision/test_guards.py",
        "tests/property/test_tolerance_by_pair.py",
        "tests/property/test_certificate.py",
    ],
    "members bound": [  # no property tests: without machine code they take long
        "tests/certificate/test_members_dual.py",
        "tests/certificate/test_edges_of_rounding.py",
    ],
    "engine/plain": [
        "tests/certificate/test_edges_of_rounding.py",
        "tests/certificate/test_tolerance.py",
        "tests/engine/test_closed.py",
        "tests/unit/test_spreads.py",
        "tests/decision/test_time_budget.py",
        "tests/engine/test_plain_engine.py",
        "tests/unit/test_allowed_end.py",
        "tests/conformance/test_engines.py",
        "tests/property/test_closed_loop.py",
        "tests/property/test_search.py",
        "tests/property/test_tolerance_by_pair.py",
    ],
    "verify": [
        "tests/verify/test_verify.py",
        "tests/verify/test_verify_corners.py",
        "tests/verify/test_verify_arithmetic.py",
        "tests/verify/test_verify_searches.py",
        "tests/verify/test_verify_closed.py",
        "tests/verify/test_verify_kinds.py",
        "tests/records/test_checkpoints.py",
        "tests/decision/test_final_check.py",
        "tests/decision/test_time_budget.py",
        "tests/certificate/test_tolerance.py",
        "tests/certificate/test_member_feasible.py",
        "tests/verify/test_verify_hostile.py",
        "tests/verify/test_verify_corpus.py",
        "tests/records/test_override.py",
        "tests/decision/test_guards.py",
        "tests/verify/test_verify_watch.py",
        "tests/allocation/test_records.py",
        "tests/allocation/test_steps_records.py",
        "tests/allocation/test_branch.py",
        "tests/planner/test_recalibrated_job.py",
        "tests/property/test_forgery.py",
    ],
}
MARK = "_statement_is_reached"
MOST_EXAMPLES = 60  # of a Hypothesis test: those that notice a mutant do so early
RECENT = 12  # how many of the tests that noticed the module's mutants before are tried first
MOST_LEFT_OUT = 0.02  # share of a group's tests that may fail without a mutant
TEST_CPU_S = 20.0  # processor time of one test; an endless loop is a mutant caught


class Mutant(NamedTuple):
    """One change. `key` names it without line numbers, so that reasons outlive edits elsewhere."""

    path: str
    key: str
    line: int
    statement: int  # line of the innermost statement around the change; 0: it runs on import
    source: str


# -------------------------------------------------------------------- changes

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


def modules_of(root: Path, group: str) -> list[Path]:
    """The modules of a group in the tree at `root`."""
    return sorted(path for pattern in MODULES[group].split() for path in (root / SOURCE).glob(pattern))


def changes_of(node: ast.AST) -> list[Callable[[Any], ast.AST]]:
    """What may be done to a node; each returns the node that takes its place."""
    if isinstance(node, ast.Compare):
        return [partial(_compare, i=i) for i, op in enumerate(node.ops) if type(op) in COMPARE]
    if isinstance(node, ast.BoolOp):
        return [lambda n: ast.BoolOp(ast.Or() if isinstance(n.op, ast.And) else ast.And(), n.values)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [lambda n: n.operand]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [lambda n: n.operand]
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        if any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)):
            return []
        return [lambda n: ast.BinOp(n.left, ARITHMETIC[type(n.op)](), n.right)]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return [lambda n: ast.Constant(not n.value)]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [lambda n: ast.Constant(n.value + 1)]
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        return [lambda n: ast.Return(ast.Constant(None))]
    if isinstance(node, ast.Raise):
        return [lambda n: ast.Pass()]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [lambda n: ast.Pass()]
    if isinstance(node, ast.Continue | ast.Break):
        return [lambda n: ast.Pass()]
    return []


def _compare(node: ast.Compare, i: int) -> ast.Compare:
    ops = [COMPARE[type(op)]() if k == i else op for k, op in enumerate(node.ops)]
    return ast.Compare(node.left, ops, node.comparators)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _Places(ast.NodeVisitor):
    """Nodes in source order with the function they stand in; annotations and definitions of names are left out."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []
        self.names: list[str] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.names.append(node.name)
            parts: list[ast.AST] = [*node.body]
            if isinstance(node, ast.FunctionDef):
                parts = [*node.args.defaults, *[d for d in node.args.kw_defaults if d], *parts]
            for part in parts:
                self.visit(part)
            self.names.pop()
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            return
        self.found.append((node, ".".join(self.names) or "module"))
        self.generic_visit(node)


def mutants_of(path: Path, wanted: set[str] | None = None) -> Iterator[Mutant]:
    """Every mutant of a module, in source order; with `wanted` only those with these keys have their source."""
    tree = ast.parse(path.read_text())
    places = _Places()
    places.visit(tree)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    seen: dict[str, int] = {}
    name = path.relative_to(ROOT).as_posix()
    for node, where in places.found:
        for change in changes_of(node):
            other = ast.copy_location(change(node), node)
            around = list(_around(node, parents))
            statement = next((x for x in around if isinstance(x, ast.stmt)), None)
            if statement is None:
                continue
            runs_later = any(
                isinstance(x, ast.FunctionDef) and node in ast.walk(ast.Module(x.body, [])) for x in around
            )
            key = f"{name}::{where}::{_shown(node)} -> {_shown(other)} in: {_shown(statement)}"
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > 1:
                key += f" ({seen[key]})"
            source = ""
            if wanted is None or key in wanted:
                _swap(parents[node], node, other)
                source = ast.unparse(ast.fix_missing_locations(tree))
                _swap(parents[node], other, node)
            yield Mutant(name, key, node.lineno, statement.lineno if runs_later else 0, source)


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """The node and everything it stands in, from the inside out."""
    at: ast.AST | None = node
    while at is not None:
        yield at
        at = parents.get(at)


def _swap(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put `new` in the place of `old`."""
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


# -------------------------------------------------------------------- one job: a copy of the tree and forked test runs


def serve(folder: Path, group: str, timeout_s: float, quick: bool) -> None:
    """Read mutants from stdin, answer with what became of them. The first answer is about the tree as it is.

    Tests are imported and collected once, with the modules as they are; a forked child grafts the mutant onto them and
    runs. The mutant is also written to the copy of the tree, for tests that start another process.
    """
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "src")]
    os.environ["PYTHONPATH"] = f"{folder / 'src'}{os.pathsep}{folder}"
    # Within a second, byte code of a mutant of the same size would be taken for that of the one before it.
    sys.dont_write_bytecode = True
    if group == "members bound":  # a mutant of compiled code must not wait for its compilation
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import pytest

    options = f"-qq -s -p no:cacheprovider -p no:xdist --basetemp={folder / 'temp'}".split() + ["-m", "not slow"]
    files = [name for name in TESTS[group] if not (quick and "property" in name)]
    pytest.main([*options, *files], plugins=[_Server(folder, group, timeout_s, answers)])


class _Server:
    """A plugin that answers instead of running the tests once."""

    def __init__(self, folder: Path, group: str, timeout_s: float, answers: TextIO) -> None:
        self.folder, self.group, self.timeout_s, self.answers = folder, group, timeout_s, answers
        self.recent: dict[str, list[str]] = {}
        self.reach: dict[str, Reach] = {}
        self.started: list[Any] = []

    def pytest_runtestloop(self, session: Any) -> bool:
        fewer_examples(session.items)
        if self.group == "verify":
            make_records()
        # A mutant of plain code need not wait for machine code.
        items = [x for x in session.items if "compiled" not in x.name and x.get_closest_marker("compiled") is None]
        plain = [item for item in items if "as_a_module" not in item.name]
        # A control: every module grafted with a mark before each statement, which says what each test reaches, and the
        # tests backwards, because mutants are shown to them in another order too. It is most of the work. A test that
        # fails even so (marks take time, and some tests limit it) judges no mutant and is named; many mean that the
        # tree is broken. Tests that start another process are left to the mutants that need them.
        modules = modules_of(self.folder, self.group)
        same = [(p.relative_to(self.folder).as_posix(), p.read_text()) for p in modules]
        state, test = self.run(session, plain[::-1], same, self.folder / "reach.json")
        reach = self.folder / "reach.json"
        found = json.loads(reach.read_text()) if state == "survived" and reach.exists() else {}
        self.reach = {name: Reach(*one) for name, one in found.items() if one is not None}
        left_out = [item.nodeid for item in plain if item.nodeid not in self.reach]
        for name in left_out:
            print(f"{self.group}: fails without a mutant, left out: {name}", file=sys.stderr, flush=True)
        if len(left_out) > MOST_LEFT_OUT * len(plain):
            state, test = "killed", f"{len(left_out)} of {len(plain)} tests, {left_out[0]} among them"
        self.answer(state if state == "survived" else f"{state} by {test}")
        plain = [item for item in plain if item.nodeid in self.reach]
        for line in sys.stdin:
            task = json.loads(line)
            path = self.folder / task["path"]
            original = path.read_text()
            path.write_text(task["source"])
            try:
                state, test = self.run(session, self.order(plain, task), [(task["path"], task["source"])])
                if state == "survived" and task["path"].endswith("__main__.py"):
                    state, test = self.elsewhere(session, [x for x in items if x not in plain], path, original, task)
            finally:
                path.write_text(original)
            if test:
                seen = self.recent.setdefault(task["path"], [])
                self.recent[task["path"]] = [test, *(x for x in seen if x != test)][:RECENT]
            self.answer(state)
        return True

    def control(self, *arguments: Any) -> tuple[str, str]:
        """What becomes of a tree without a mutant; twice at most, because a busy machine may fail a test of time."""
        first = self.run(*arguments)
        if first[0] == "survived":
            return first
        print(f"{self.group}: without a mutant {first[0]} by {first[1]}; once more", file=sys.stderr, flush=True)
        return self.run(*arguments)

    def elsewhere(
        self, session: Any, items: list[Any], path: Path, original: str, task: dict[str, Any]
    ) -> tuple[str, str]:
        """What the tests notice that run the module in another process: those that pass without the mutant count."""
        if not self.started:
            path.write_text(original)
            self.started = [x for x in items if self.control(session, [x], [])[0] == "survived"]
            path.write_text(task["source"])
        return self.run(session, self.started, [])

    def order(self, plain: list[Any], task: dict[str, Any]) -> list[Any]:
        """The tests that reach the place, those first that noticed the module's last mutants, then the quick ones."""
        path, line = task["path"], task["statement"]
        reached = {x.nodeid: self.reach[x.nodeid].lines.get(path, []) for x in plain}
        own = [x for x in plain if not line or line in reached[x.nodeid]] or plain
        rank = {name: i for i, name in enumerate(self.recent.get(path, []))}
        return sorted(own, key=lambda x: (rank.get(x.nodeid, RECENT), self.reach[x.nodeid].cpu_s))

    def answer(self, result: str) -> None:
        print(result, file=self.answers, flush=True)

    def run(
        self, session: Any, items: list[Any], grafts: list[tuple[str, str]], reach: Path | None = None
    ) -> tuple[str, str]:
        """survived, killed or timeout; and the test that noticed. `reach` is where to write what each test reaches."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(session, items, grafts, writer, reach)
        os.close(writer)
        deadline = time.monotonic() + self.timeout_s
        status = None
        while status is None:
            done, code = os.waitpid(pid, os.WNOHANG)
            if done:
                status = code
            elif time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                status = os.waitpid(pid, 0)[1]
            else:
                time.sleep(0.002)
        with os.fdopen(reader) as pipe:
            test = pipe.read()
        if status == 0:
            return "survived", ""
        return ("timeout" if os.WIFSIGNALED(status) else "killed"), test


def fewer_examples(items: list[Any]) -> None:
    from hypothesis import settings

    for item in items:
        own = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > MOST_EXAMPLES:
            item.obj._hypothesis_internal_use_settings = settings(own, max_examples=MOST_EXAMPLES)


def make_records() -> None:
    """The planner is not mutated with the verifier, so its records can be made once."""
    unit, forgery = sys.modules["test_verify"], sys.modules.get("test_forgery")
    for name in unit.SCENARIOS:
        unit.made(name)
    for n in range(forgery.COUNT if forgery is not None else 0):
        forgery.case(n)


class Reach(NamedTuple):
    """What one test does."""

    cpu_s: float
    lines: dict[str, list[int]]  # by path, of the modules that may be mutated


def _child(
    session: Any, items: list[Any], grafts: list[tuple[str, str]], writer: int, reach: Path | None
) -> None:  # fmt: skip
    code, found, lines = 1, {}, {}
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        for path, source in grafts:
            if reach is None:
                graft(path, source)
            else:
                lines[path] = set()
                graft(path, marked(source), lines[path].add)
        for i, item in enumerate(items):
            signal.setitimer(signal.ITIMER_VIRTUAL, TEST_CPU_S if reach is None else 30.0 * TEST_CPU_S)
            following = items[i + 1] if i + 1 < len(items) else None
            start = time.process_time()
            for seen in lines.values():
                seen.clear()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if reach is not None:
                by_path = {path: sorted(seen) for path, seen in lines.items() if seen}
                found[item.nodeid] = None if session.testsfailed else Reach(time.process_time() - start, by_path)
                session.testsfailed = 0
            elif session.testsfailed:
                os.write(writer, item.nodeid.encode())
                break
        else:
            code = 0
        if reach is not None:
            reach.write_text(json.dumps(found))
    finally:
        os._exit(code)


class _Marks(ast.NodeTransformer):
    """A call of MARK with its line before every statement of a function."""

    def __init__(self) -> None:
        self.inside = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if self.inside and isinstance(block, list) and not isinstance(node, ast.ClassDef):
                own = [(ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(x.lineno)], [])), x) for x in block]
                setattr(node, field, [part for pair in own for part in pair])
        return node


def marked(source: str) -> str:
    return ast.unparse(ast.fix_missing_locations(_Marks().visit(ast.parse(source))))


def graft(path: str, source: str, mark: Callable[[int], None] | None = None) -> None:
    """Put a mutant's functions, methods and constants in the place of those that everybody has imported already."""
    name = ".".join(Path(path).with_suffix("").parts[1:]).removesuffix(".__init__")
    module = sys.modules.get(name)
    if module is None:
        return  # imported later, from the copy of the tree
    fresh: dict[str, Any] = {"__name__": name, "__file__": module.__file__, "__package__": module.__package__}
    if mark is not None:
        fresh[MARK] = mark
        setattr(module, MARK, mark)
    exec(compile(source, path, "exec"), fresh)
    users = [m for k, m in list(sys.modules.items()) if k.startswith(("ucsearch", "test_", "tests"))]
    for key, new in list(fresh.items()):
        old = vars(module).get(key)
        if getattr(new, "__module__", name) != name or key.startswith("__"):
            continue
        if isinstance(new, types.FunctionType) and isinstance(old, types.FunctionType) and not new.__closure__:
            old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
            fresh[key] = old  # what decorated functions, which stay in `fresh`, are to call
        elif isinstance(new, type) and isinstance(old, type):
            fresh[key] = old
            for part, value in vars(new).items():
                if isinstance(value, types.FunctionType) and value.__globals__ is fresh:
                    setattr(old, part, _method(value, old, vars(module)))
                elif part == "__new__" and isinstance(value, staticmethod) and part in vars(old):  # of a NamedTuple
                    vars(old)[part].__func__.__defaults__ = value.__func__.__defaults__
                elif isinstance(value, classmethod | staticmethod) and value.__func__.__globals__ is fresh:
                    setattr(old, part, type(value)(_method(value.__func__, old, vars(module))))
                elif isinstance(value, cached_property) and value.func.__globals__ is fresh:
                    setattr(old, part, made := cached_property(_method(value.func, old, vars(module))))
                    made.__set_name__(old, part)
                elif isinstance(value, property) and value.fget is not None:
                    setattr(old, part, property(_method(value.fget, old, vars(module)), doc=value.__doc__))
                elif isinstance(value, types.FunctionType | bool | int | float) and not isinstance(value, Enum):
                    setattr(old, part, value)  # also what dataclass and NamedTuple wrote, with the defaults
        else:
            new = _with_known(new, fresh, vars(module))
            for user in users:
                if user is module or vars(user).get(key) is old:
                    setattr(user, key, new)


def _with_known(value: Any, fresh: dict[str, Any], names: dict[str, Any]) -> Any:
    """A table of functions with those that everybody has, whose code is the mutant's by now."""
    if isinstance(value, dict):
        return {key: _with_known(one, fresh, names) for key, one in value.items()}
    if isinstance(value, types.FunctionType) and value.__globals__ is fresh:
        return names.get(value.__name__, value)
    return value


def _method(function: Any, owner: type, names: dict[str, Any]) -> types.FunctionType:
    """The function as a method of the class that everybody has: super() finds its class in a cell."""
    free, cells = function.__code__.co_freevars, function.__closure__ or ()
    closure = tuple(types.CellType(owner) if n == "__class__" else c for n, c in zip(free, cells, strict=True))
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


# -------------------------------------------------------------------- all jobs


def copy_tree(folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db"))
        else:
            shutil.copy2(ROOT / name, folder / name)


def work(mutants: list[Mutant], group: str, timeout_s: float, quick: bool) -> dict[str, str]:
    """What became of each mutant of a group, by key; "" the reason why nothing did."""
    results: dict[str, str] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy_tree(Path(name))
        command = [sys.executable, __file__, "--serve", name, "--group", group, "--timeout", str(timeout_s)]
        command += ["--quick"] * quick
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            if server.stdin is None or server.stdout is None:
                return {"": "nothing"}
            if (first := server.stdout.readline().strip()) != "survived":
                server.stdin.close()
                return {"": first or "nothing"}
            for mutant in mutants:
                server.stdin.write(json.dumps(mutant._asdict()) + "\n")
                server.stdin.flush()
                results[mutant.key] = server.stdout.readline().strip() or "killed"
                told = f"{group}, {time.monotonic() - begun:.0f} s, {len(results)} of {len(mutants)}"
                print(f"{told}: {results[mutant.key]} {mutant.key}", file=sys.stderr)
            server.stdin.close()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, help="modules of the folders that TESTS names")
    parser.add_argument("--jobs", type=int, default=2, help="groups at a time")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for the tests of one mutant")
    parser.add_argument("--sample", type=int, help="only so many mutants, drawn evenly from the groups")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--groups", default="", help=f"only these, by commas: {', '.join(MODULES)}")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    parser.add_argument("--quick", action="store_true", help="leave out the property tests")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--group", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.group, options.timeout, options.quick)
        return 0
    asked = {p.resolve() for p in options.modules}
    mutants: list[Mutant] = []
    groups: dict[str, list[Mutant]] = {}
    for group in MODULES:
        if options.groups and group not in options.groups.split(","):
            continue
        every = modules_of(ROOT, group)
        if not every:
            raise SystemExit(f"the group {group} has no module: {MODULES[group]}")
        paths = [p for p in every if not asked or p in asked]
        groups[group] = [mutant for path in paths for mutant in mutants_of(path, set())]
    known = {m.key for own in groups.values() for m in own}
    if options.sample is not None:
        groups = sample(groups, options.sample, options.seed)
    mutants = [mutant for own in groups.values() for mutant in own]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.line}: {mutant.key}")
        print(len(mutants))
        return 0
    accepted = {x["mutant"]: x["reason"] for x in tomllib.loads(REASONS.read_text()).get("accepted", [])}
    results: dict[str, str] = {}
    if not asked and not options.groups:
        for key in sorted(set(accepted) - known):
            print(f"reason without mutant: {key}")

    def of_group(group: str) -> dict[str, str]:
        keys = {m.key for m in groups[group]}
        paths = dict.fromkeys(m.path for m in groups[group])
        own = [m for path in paths for m in mutants_of(ROOT / path, keys) if m.source]
        return work(own, group, options.timeout, options.quick) if own else {}

    # A group has one server, so that its tests are looked through once; the dearest begins first.
    order = sorted(groups, key=lambda group: -len(TESTS[group]))
    with ThreadPoolExecutor(options.jobs) as pool:
        for group, found in zip(order, pool.map(of_group, order), strict=True):
            if "" in found:
                pool.shutdown(wait=False, cancel_futures=True)
                raise SystemExit(f"the tests of {group} do not pass on the tree as it is ({found['']})")
            results |= found
    return report(mutants, results, accepted, whole=options.sample is None and not asked)


def sample(groups: dict[str, list[Mutant]], count: int, seed: int) -> dict[str, list[Mutant]]:
    """`count` mutants, as many from each group that has them, by a hash of seed and key: an edit elsewhere changes no
    other mutant's luck."""

    def luck(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}:{mutant.key}".encode()).digest()

    chosen: dict[str, list[Mutant]] = {}
    left = count
    by_size = sorted(groups, key=lambda group: len(groups[group]))
    for i, group in enumerate(by_size):
        share = min(len(groups[group]), left // (len(by_size) - i))
        left -= share
        lucky = {m.key for m in sorted(groups[group], key=luck)[:share]}
        chosen[group] = [m for m in groups[group] if m.key in lucky]
    return {group: chosen[group] for group in groups}


def report(mutants: list[Mutant], results: dict[str, str], accepted: dict[str, str], whole: bool) -> int:
    survivors = [m for m in mutants if results[m.key] == "survived"]
    unexplained = [m for m in survivors if m.key not in accepted]
    for mutant in survivors:
        reason = accepted.get(mutant.key, "NO REASON GIVEN")
        print(f"survived: {mutant.path}:{mutant.line} {mutant.key.split('::', 1)[1]}\n    {reason}")
    # Of a sample only those that were drawn can be found to be stale.
    seen = set(accepted) if whole else set(accepted) & {m.key for m in mutants}
    for key in sorted(seen - {m.key for m in survivors}):
        print(f"reason without survivor: {key}")
    for path in sorted({m.path for m in mutants}):
        own = [m for m in mutants if m.path == path]
        left = sum(results[m.key] == "survived" for m in own)
        print(f"{path}: {len(own) - left} of {len(own)} killed ({1 - left / len(own):.1%})")
    killed = len(mutants) - len(survivors)
    timeouts = sum(result == "timeout" for result in results.values())
    share = killed / len(mutants) if mutants else 1.0
    print(f"{killed} of {len(mutants)} mutants killed ({share:.1%}), {timeouts} of them by the time limit;")
    print(f"{len(survivors)} survived, {len(unexplained)} without a reason")
    return 0 if share >= SHARE and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main())
