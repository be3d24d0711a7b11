"""Which task's code is run: that of a built-in task, one that the caller names, or, when told so, what a record names.

Importing a module runs it, and nothing in a record is a reason to do that. Nor is what lies in the current folder: it
is off the import path, and only the module that was named by the caller is looked for there, after everywhere else.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ucsearch.verify.identity import forget
from ucsearch.verify.verdict import describe

LONGEST_NAME = 32_768  # characters; parameters of a built-in task may be part of its name
# Parts of ours whose modules hold tasks; nothing else of ours is imported for a record.
HOMES = (".tasks.", ".lab.suites.kinds.", ".cli.demo.")
_BUILT_IN = re.compile(r"ucsearch((?:\.[a-z][a-z0-9_]*)+):([A-Za-z][A-Za-z0-9_]*)")
_NEEDED = (
    "name", "version", "state", "actions", "label", "params", "outcome", "feasible", "step",
    "reward", "fallback", "terminal", "prepare", "bound", "invariant", "continuations", "allowed_end", "uses",
    "conditions",
)  # fmt: skip


class NoTask(Exception):
    """The task whose rules the record claims to keep cannot be found, or nobody said that it may be imported."""


def is_genuine(error: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C. The command ends at once then, so that there it can only be foreign code."""
    ours = signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.SIG_IGN, None)
    return isinstance(error, KeyboardInterrupt) and not ours


def find_object(name: str, check: Callable[[str, Any], Any] = lambda name, found: found) -> Any:
    """What "package.module:object" or "folder/file.py:object" names; its module is imported: its code runs.

    The module is looked for on the import path, then in the current folder, of which nothing else is imported.
    """
    place, _, path = name.rpartition(":")
    try:
        return check(name, _walk(_module(place), path))
    except NoTask:
        raise
    except BaseException as error:
        if is_genuine(error):
            raise
        hint = "name it as package.module:object or file.py:object"
        raise NoTask(f"no task {name[:200]!r} ({describe(error)}); {hint}") from None


def find_task(name: str) -> Any:
    """The task of this `name`: `package.module:object` or `folder/file.py:object`. Its module is imported: its
    code runs."""
    return find_object(name, _checked)


def built_in_task(name: str) -> Any:
    """A task that ships with the package, by the address that records hold."""
    match = _BUILT_IN.fullmatch(name) if len(name) <= LONGEST_NAME else None
    if match is None or not f"{match[1]}.".startswith(HOMES):
        shown = repr(name[:200]) if name else "nothing"
        raise NoTask(f"the record names {shown} as its task, which is not built in; name it by --task")
    try:
        module = importlib.import_module(f"ucsearch{match[1]}")
        task = getattr(module, match[2])
    except MemoryError:
        raise
    except BaseException as error:
        if is_genuine(error):
            raise
        raise NoTask(f"there is no built-in task {name[:200]!r} ({describe(error)})") from None
    # A name may lead to anything that a module of ours imports; a task is an object of one class.
    if (type(task).__module__, type(task).__name__) != ("ucsearch.task", "Task"):
        raise NoTask(f"{name[:200]!r} is no built-in task, but a {type(task).__name__}")
    return _checked(name, task)


def tasks(task: Any = None, trust_record_task: bool = False) -> Callable[[str], Any]:
    """The task for what a record names: `task` if there is one, else by `find_task` if trusted, else a built-in one."""
    found_tasks: dict[str, Any] = {}
    forget()

    def task_of(name: str) -> Any:
        if task is None and name not in found_tasks:
            if len(found_tasks) >= 256:  # a hostile log may name a new one in every entry
                found_tasks.clear()
            try:
                found_tasks[name] = built_in_task(name)
            except NoTask:
                if not trust_record_task:
                    raise
                found_tasks[name] = find_task(name)
        return found_tasks[name] if task is None else task

    return task_of


# -------------------------------------------------------------------- modules


def _checked(name: str, task: Any) -> Any:
    if lacking := [part for part in _NEEDED if not hasattr(task, part)]:
        raise NoTask(f"{name[:200]!r} is no task: it has no {lacking[0]}")
    return task


def _walk(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        with _also_here(place.partition(".")[0]):
            return importlib.import_module(place)
    name = _free_name(Path(place))
    spec = importlib.util.spec_from_file_location(name, place, loader=_FromText(name, place))
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(module.__name__, module)  # classes and pickles of the module look for it there
    spec.loader.exec_module(module)
    return module


def _free_name(file: Path) -> str:
    """The file's own, unless another module has it: a `numpy.py` of somebody's must not stand for numpy."""
    name = file.stem.replace(".", "_")  # of a package it would be, and that would be imported
    other: Any = sys.modules.get(name)
    if other is None:
        with suppress(ImportError, ValueError):
            other = importlib.util.find_spec(name)
    where = getattr(other, "origin", None) or getattr(other, "__file__", None)
    return name if other is None or where == str(file) else f"{name}_of_a_task"


class _FromText(importlib.machinery.SourceFileLoader):
    """Runs the text that is there. Bytecode beside it may be planted, or of another text of that second and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Here(importlib.abc.MetaPathFinder):
    """Finds one top-level module or package in the current folder, and nothing else there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name or path is not None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, [os.getcwd()])
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _FromText(fullname, spec.loader.path)
        return spec


@contextmanager
def _also_here(name: str) -> Iterator[None]:
    finder = _Here(name)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def current_folder_off_path() -> Iterator[None]:
    """Nothing is imported from the current folder, unless PYTHONPATH names it; the path is put back afterwards."""
    here, before = os.path.realpath(os.getcwd()), list(sys.path)
    named = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    allowed = {os.path.realpath(part) for part in [home, *named]}
    sys.path[:] = [part for part in before if os.path.realpath(part or here) != here or here in allowed]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
