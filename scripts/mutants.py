"""Break the gate and the verifier in small ways, one at a time, and count how many breaks the tests notice.

Each mutant lives in a temporary copy of the sources; the tree itself is never touched. Survivors are listed; those
known to change nothing observable are named, with the reason, in scripts/mutants_reasons.toml.

    python scripts/mutants.py [--sample N] [--jobs 2] [MODULE ...]
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {
    "src/ucsearch/dispatch/gate.py": ["tests/unit/test_dispatch.py"],
    **{f"src/ucsearch/verify/{n}.py": ["tests/unit/test_verify.py"] for n in ("claims", "gate", "replay", "search")},
}
COMPARE = {
    ast.LtE: ast.Lt, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add}


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """(line, what, mutated tree) for every place that can be broken."""
    nodes = list(ast.walk(tree))
    for i, node in enumerate(nodes):
        for what, change in _changes(node):
            broken = copy.deepcopy(tree)
            change(list(ast.walk(broken))[i])
            yield getattr(node, "lineno", 0), what, ast.fix_missing_locations(broken)


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        new = COMPARE[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} -> {new.__name__}", lambda n: n.ops.__setitem__(0, new())
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        new = ARITHMETIC[type(node.op)]
        yield f"{type(node.op).__name__} -> {new.__name__}", lambda n: setattr(n, "op", new())
    if isinstance(node, ast.BoolOp):
        new = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} -> {new.__name__}", lambda n: setattr(n, "op", new())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", _unwrap
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", lambda n: setattr(n, "value", not n.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)
    if isinstance(node, ast.Raise):
        yield "raise dropped", _to_pass


def _unwrap(node: ast.UnaryOp) -> None:
    """`not x` becomes `not not x`, which is x as a truth value."""
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _to_pass(node: ast.Raise) -> None:
    node.exc, node.cause = ast.Constant(None), None
    node.__class__ = ast.Expr  # type: ignore[assignment]
    node.value = ast.Constant(None)  # type: ignore[attr-defined]


def killed(module: str, tests: list[str], tree: ast.Module, timeout_s: float) -> bool:
    """Run the tests against a copy of the sources with one module replaced."""
    with tempfile.TemporaryDirectory() as place:
        copy_to = Path(place) / "src"
        shutil.copytree(ROOT / "src", copy_to, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(place) / module).write_text(ast.unparse(tree))
        environment = {**os.environ, "PYTHONPATH": str(copy_to), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(TARGETS))
    parser.add_argument("--sample", type=int, default=0, help="only so many mutants per module, chosen by a fixed seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=180.0)
    arguments = parser.parse_args()
    reasons_file = ROOT / "scripts" / "mutants_reasons.toml"
    reasons = tomllib.loads(reasons_file.read_text()) if reasons_file.exists() else {}
    total = caught = 0
    survivors = []
    for module in arguments.modules:
        found = list(mutants(ast.parse((ROOT / module).read_text())))
        if arguments.sample and len(found) > arguments.sample:
            found = random.Random(0).sample(found, arguments.sample)
        tests = TARGETS[module]
        if killed(module, tests, ast.parse((ROOT / module).read_text()), arguments.timeout):
            print(f"{module}: its tests fail without any mutation", file=sys.stderr)
            return 2
        with ThreadPoolExecutor(arguments.jobs) as pool:
            verdicts = list(pool.map(lambda m: killed(module, tests, m[2], arguments.timeout), found))  # noqa: B023
        lines = (ROOT / module).read_text().splitlines()
        for (line, what, _), dead in zip(found, verdicts, strict=True):
            total += 1
            caught += dead
            if not dead:
                survivors.append((module, line, what, lines[line - 1].strip()))
        print(f"{module}: {sum(verdicts)} of {len(found)} killed", flush=True)
    known = reasons.get("survivor", [])
    for module, line, what, text in survivors:
        why = next((r["why"] for r in known if r["module"] == module and r["text"] in text), "NO REASON GIVEN")
        print(f"survived: {module}:{line} {what}: {text}\n          {why}")
    print(f"{caught} of {total} killed, {caught / max(total, 1):.1%}")
    return 0 if caught >= 0.95 * total else 1


if __name__ == "__main__":
    raise SystemExit(main())
