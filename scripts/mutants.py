"""Mutation check: change one operator, number, truth value or check at a time and see whether the tests notice.

    python scripts/mutants.py                                  # the gate and the verifier
    python scripts/mutants.py src/ucsearch/verify/gate.py      # these modules only
    python scripts/mutants.py --list                           # what would be changed

Every mutant is written into a temporary copy of the tree (one per job) and the tests that belong to its module are run
there, in forked processes with a time limit; the working tree is not touched. Survivors must be listed with a reason in
scripts/mutants_reasons.toml. Exit code 0: every survivor has a reason, and at least 95 % of all mutants were killed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REASONS = ROOT / "scripts" / "mutants_reasons.toml"
COPIED = ("src", "tests", "docs", "pyproject.toml")
SHARE = 0.95

UNIT = ["tests/unit/test_verify.py", "-k", "not compiled and not as_a_module"]
FORGERY = ["tests/property/test_forgery.py", "-m", "not slow"]
DISPATCH = ["tests/unit/test_dispatch.py"]
# By folder of the module: test runs, one after the other until one fails.
TESTS = {"dispatch": [DISPATCH, UNIT], "verify": [UNIT, FORGERY]}
# What is most likely to notice, tried before all the rest: it only saves time.
FIRST = {
    "__init__.py": "override or task or exit or log",
    "__main__.py": "exit_codes or usage or module or folder",
    "formats.py": "canonical or json or blob or chain or log or checkpoint or exported or bytes or files",
    "schema.py": "malformed or missing or refused or override",
    "inputs.py": "lie_is_named or piece or fit or override or refused or valid_record",
    "replay.py": "valid_record or many_paths",
    "search.py": "valid_record or many_paths or meter",
}


class Mutant(NamedTuple):
    """One change. `key` names it without line numbers, so that reasons outlive edits elsewhere."""

    path: str
    key: str
    line: int
    source: str


# -------------------------------------------------------------------- changes

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


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


class _Replace(ast.NodeTransformer):
    def __init__(self, place: ast.AST, other: ast.AST) -> None:
        self.place, self.other = place, other

    def visit(self, node: ast.AST) -> Any:
        return self.other if node is self.place else self.generic_visit(node)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in source order."""
    tree = ast.parse(path.read_text())
    places = _Places()
    places.visit(tree)
    seen: dict[str, int] = {}
    name = path.relative_to(ROOT).as_posix()
    for n, (node, where) in enumerate(places.found):
        for k, _ in enumerate(changes_of(node)):
            changed = copy.deepcopy(tree)
            again = _Places()
            again.visit(changed)
            place = again.found[n][0]
            other = ast.copy_location(changes_of(place)[k](copy.deepcopy(place)), place)
            statement = _statement(tree, node)
            new = _Replace(place, other).visit(changed)
            source = ast.unparse(ast.fix_missing_locations(new))
            key = f"{name}::{where}::{_shown(node)} -> {_shown(other)} in: {_shown(statement)}"
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > 1:
                key += f" ({seen[key]})"
            yield Mutant(name, key, getattr(node, "lineno", 0), source)


def _statement(tree: ast.AST, node: ast.AST) -> ast.AST:
    """The innermost statement around a node."""
    best: ast.AST = node
    for candidate in ast.walk(tree):
        whole = isinstance(candidate, ast.stmt) and not isinstance(candidate, ast.FunctionDef | ast.ClassDef)
        if whole and any(inner is node for inner in ast.walk(candidate)):
            best = candidate
    return best


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


# -------------------------------------------------------------------- one job: a copy of the tree and forked test runs


def serve(folder: Path, group: str, timeout_s: float) -> None:
    """Read mutants from stdin, answer with what became of them. The first answer is about the tree as it is.

    Tests are imported once, with the modules as they are; a forked child grafts the mutant onto them and runs. The
    mutant is also written to the copy of the tree, for tests that start another process.
    """
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "src")]
    os.environ["PYTHONPATH"] = f"{folder / 'src'}{os.pathsep}{folder}"
    # Within a second, byte code of a mutant of the same size would be taken for that of the one before it.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    quietly(lambda: prepare(group))
    answer(run(group, timeout_s * 4, None))
    for line in sys.stdin:
        task = json.loads(line)
        path = folder / task["path"]
        original = path.read_text()
        path.write_text(task["source"])
        try:
            answer(run(group, timeout_s, task))
        finally:
            path.write_text(original)


def answer(result: str) -> None:
    print(result, file=sys.__stdout__, flush=True)


def quietly(work: Callable[[], Any]) -> None:
    """Only answers may appear on the standard output."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        work()
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def prepare(group: str) -> None:
    """Import the tests. The planner is not mutated with the verifier, so its records can be made once."""
    import pytest

    for arguments in TESTS[group]:
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments])
    if group != "verify":
        return
    unit, forgery = sys.modules["test_verify"], sys.modules["test_forgery"]
    for name in unit.SCENARIOS:
        unit.made(name)
    for n in range(forgery.COUNT):
        forgery.case(n)


def graft(path: str, source: str) -> None:
    """Put a mutant's functions, methods and constants in the place of those that everybody has imported already."""
    name = ".".join(Path(path).with_suffix("").parts[1:]).removesuffix(".__init__")
    module = sys.modules[name]
    fresh: dict[str, Any] = {"__name__": name, "__file__": module.__file__, "__package__": module.__package__}
    exec(compile(source, path, "exec"), fresh)
    users = [m for k, m in list(sys.modules.items()) if k.startswith(("ucsearch", "test_", "tests"))]
    for key, new in fresh.items():
        old = vars(module).get(key)
        if getattr(new, "__module__", name) != name or key.startswith("__"):
            continue
        if isinstance(new, types.FunctionType) and isinstance(old, types.FunctionType) and not new.__closure__:
            old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        elif isinstance(new, type) and isinstance(old, type):
            for part, value in vars(new).items():
                if isinstance(value, types.FunctionType):
                    code, closure = value.__code__, value.__closure__
                    copied = types.FunctionType(code, vars(module), value.__name__, value.__defaults__, closure)
                    copied.__kwdefaults__ = value.__kwdefaults__
                    setattr(old, part, copied)
                elif isinstance(value, property):
                    setattr(old, part, value)
        else:
            for user in users:
                if user is module or vars(user).get(key) is old:
                    setattr(user, key, new)


def run(group: str, timeout_s: float, task: dict[str, str] | None) -> str:
    """survived, killed or timeout."""
    first = FIRST.get(Path(task["path"]).name) if task is not None and group == "verify" else None
    for arguments in [*([[UNIT[0], "-k", first]] if first else []), *TESTS[group]]:
        pid = os.fork()
        if pid == 0:
            _child(arguments, task)
        deadline = time.monotonic() + timeout_s
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "timeout"
            time.sleep(0.01)
        if status != 0:
            return "killed"
    return "survived"


def _child(arguments: list[str], task: dict[str, str] | None) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        import pytest

        if task is not None:
            graft(task["path"], task["source"])
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]))
    finally:
        os._exit(0 if code == 0 else 1)


# -------------------------------------------------------------------- all jobs


def copy_tree(folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db"))
        else:
            shutil.copy2(ROOT / name, folder / name)


def work(mutants: list[Mutant], group: str, jobs: int, timeout_s: float) -> dict[str, str]:
    """What became of each mutant, by key."""
    waiting: queue.Queue[Mutant] = queue.Queue()
    for mutant in mutants:
        waiting.put(mutant)
    results: dict[str, str] = {}
    broken: list[str] = []

    def job() -> None:
        with tempfile.TemporaryDirectory(prefix="mutants-") as name:
            copy_tree(Path(name))
            command = [sys.executable, __file__, "--serve", name, "--group", group, "--timeout", str(timeout_s)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                if server.stdin is None or server.stdout is None:
                    return
                if (first := server.stdout.readline().strip()) != "survived":
                    broken.append(first or "nothing")
                while not broken:
                    try:
                        mutant = waiting.get_nowait()
                    except queue.Empty:
                        break
                    server.stdin.write(json.dumps({"path": mutant.path, "source": mutant.source}) + "\n")
                    server.stdin.flush()
                    results[mutant.key] = server.stdout.readline().strip() or "killed"
                    print(f"{len(results)} of {len(mutants)}: {results[mutant.key]} {mutant.key}", file=sys.stderr)
                server.stdin.close()

    threads = [threading.Thread(target=job) for _ in range(min(jobs, max(1, len(mutants))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise SystemExit(f"the tests of {group} do not pass on the tree as it is ({broken[0]})")
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, help="modules of src/ucsearch/dispatch or verify")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds per test run")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--group", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.group, options.timeout)
        return 0
    source = ROOT / "src" / "ucsearch"
    modules = [p.resolve() for p in options.modules] or [source / "dispatch/gate.py", *(source / "verify").glob("*.py")]
    mutants = [mutant for path in sorted(modules) for mutant in mutants_of(path)]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.line}: {mutant.key}")
        print(len(mutants))
        return 0
    accepted = {x["mutant"]: x["reason"] for x in tomllib.loads(REASONS.read_text()).get("accepted", [])}
    results: dict[str, str] = {}
    for group in TESTS:
        own = [m for m in mutants if f"/{group}/" in m.path]
        if own:
            results |= work(own, group, options.jobs, options.timeout)
    return report(mutants, results, accepted)


def report(mutants: list[Mutant], results: dict[str, str], accepted: dict[str, str]) -> int:
    survivors = [m for m in mutants if results[m.key] == "survived"]
    unexplained = [m for m in survivors if m.key not in accepted]
    for mutant in survivors:
        reason = accepted.get(mutant.key, "NO REASON GIVEN")
        print(f"survived: {mutant.path}:{mutant.line} {mutant.key.split('::', 1)[1]}\n    {reason}")
    stale = sorted(set(accepted) - {m.key for m in survivors}) if len({m.path for m in mutants}) > 1 else []
    for key in stale:
        print(f"reason without survivor: {key}")
    killed = len(mutants) - len(survivors)
    timeouts = sum(result == "timeout" for result in results.values())
    share = killed / len(mutants) if mutants else 1.0
    print(f"{killed} of {len(mutants)} mutants killed ({share:.1%}), {timeouts} of them by the time limit;")
    print(f"{len(survivors)} survived, {len(unexplained)} without a reason")
    return 0 if share >= SHARE and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main())
