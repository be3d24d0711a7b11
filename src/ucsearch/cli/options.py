"""Options that many commands have, and the settings and files that they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.errors import InputError

if TYPE_CHECKING:
    from ucsearch.planner.settings import Settings
    from ucsearch.task import Task

__all__ = [
    "ChangesOption",
    "SettingsOption",
    "TaskOption",
    "checked_files",
    "input_file",
    "load_task",
    "log_of",
    "named_file",
    "own_task",
    "page_path",
    "settings_of",
]

SettingsOption = Annotated[
    Path | None,
    typer.Option("-c", "--settings", metavar="FILE", help="The settings file; default: that of this folder."),
]
ChangesOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for this run; repeatable.")
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="PACKAGE:OBJECT", help="The task, if it is neither built in nor in the settings."),
]


def settings_of(path: Path | None, changes: Sequence[str] | None, *, plans: bool = True) -> Settings:
    """The settings named by -c, else those of this folder, with the changes of --set. `plans`: False where nothing is
    decided anew; settings, or their [task] and [policy], may then be left out."""
    from ucsearch.planner.settings import NoSettings, find_settings, load_settings, parse_changes, parse_settings

    changed = parse_changes(changes or [])
    if path is None:
        try:
            path = find_settings()
        except NoSettings:
            if plans:
                raise
            return parse_settings(b"", "", changed, plans=False)
    return load_settings(path, changed, plans=plans)


def log_of(settings: Settings) -> Path:
    """The log that the settings name, else decisions.db."""
    from ucsearch.records.files import check_is_file

    check_is_file(Path(settings.files.log))
    return settings.path("log") or Path("decisions.db")


def checked_files(
    settings: Settings, reads: Sequence[str] = (), writes: Sequence[str] = (), *, log: Path | None = None,
    others: Sequence[tuple[str, Path]] = (),
) -> None:  # fmt: skip
    """Refuse, before anything is read, files that would be written over: `reads` and `writes` are keys of [files],
    `log` is added to, `others` are written besides."""
    from ucsearch.planner.files.table import check_writable, refuse_overwriting

    inputs: dict[str, Path | None] = {"the settings": Path(settings.file) if settings.file else None}
    inputs |= {f"files.{key}": settings.path(key) for key in reads}
    outputs = {f"files.{key}": settings.path(key) for key in writes}
    refuse_overwriting({**outputs, **dict(others)}, inputs, logs={"files.log": log})
    for path in filter(None, outputs.values()):
        check_writable(path)


def named_file(settings: Settings, key: str) -> Path:
    """The file of a key of [files] that cannot be left out."""
    path = settings.path(key)
    if path is None:
        raise InputError(f"files.{key}", "nothing", "a file")
    return path


def input_file(settings: Settings, key: str) -> Path:
    """The same of a file that is read, which must be there."""
    path = named_file(settings, key)
    if not path.exists():
        raise InputError(
            f"files.{key}", f"no file {path}", "one that is there", hint=f"--set files.{key}=FILE names it."
        )
    return path


def page_path(settings: Settings, name: str) -> Path | None:
    """Where a page or picture of that name goes; None where [files] pages names no folder."""
    folder = settings.path("pages")
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("files.pages", str(folder), f"a folder that can be made ({error.strerror})") from error
    return folder / name


def own_task(text: str | None, settings: Settings) -> Task | None:
    """The task that --task names, else the settings' own; None where that ships with the package."""
    from ucsearch.planner.settings.own import own_tasks

    return load_task(text) if text is not None else next(iter(own_tasks(settings).values()), None)


def load_task(text: str) -> Task:
    """The task object that "package:object" names, looked for in the current folder too."""
    from ucsearch.task import Task
    from ucsearch.verify.trust import NoTask, find_object

    if ":" not in text:
        raise InputError("--task", repr(text), "package:object, such as mytasks.battery:battery")
    try:
        found = find_object(text)
    except NoTask as error:
        raise InputError("--task", repr(text), f"an object that can be imported ({error})") from error
    if not isinstance(found, Task):
        raise InputError("--task", f"a {type(found).__name__}", "a uc.Task")
    return found
