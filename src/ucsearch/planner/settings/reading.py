"""A settings file read and checked; every problem names file, key and allowed values."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ucsearch.decision.gate import Calibration, Gate
from ucsearch.errors import InputError, UCSearchError
from ucsearch.planner.settings.edit import Changes, edited
from ucsearch.planner.settings.own import own_task
from ucsearch.planner.settings.schema import file_model, forecaster_classes, model_of, policy_classes, task_classes
from ucsearch.planner.settings.suppliers import Supplier, supplier_problems, with_suppliers
from ucsearch.planner.settings.tables import OWN, OwnObject, Run, Settings, SharedLimit
from ucsearch.policies import Proof

__all__ = ["USUAL_NAME", "NoSettings", "SettingsError", "find_settings", "load_settings", "parse_settings"]

USUAL_NAME = "ucsearch.toml"
_LISTED: dict[str, Any] = {"shared": SharedLimit, "supplier": Supplier}  # tables of which there may be several
_OURS = ("name", "without_forecast", "shared_gap", "shared_serve")  # keys that belong to no class


class SettingsError(InputError):
    """Every problem of a settings file, one each in `lines`."""

    def __init__(self, lines: Sequence[str]) -> None:
        UCSearchError.__init__(self, "\n".join(lines))
        self.lines = tuple(lines)
        self.field, self.index, self.seen, self.expected = "settings", None, "", ""


class NoSettings(InputError):
    """A folder has no settings file."""


def load_settings(path: str | Path, changes: Changes | None = None, *, plans: bool = True) -> Settings:
    """Read a settings file, with `changes` made to what it says; `SettingsError` lists everything wrong with it.
    `plans`: False where nothing is decided, so that [task] and [policy] may be left out."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read ({error.strerror})"]) from error
    return parse_settings(data, str(path), changes, plans=plans)


def parse_settings(
    data: bytes, file: str = "settings", changes: Changes | None = None, *, plans: bool = True
) -> Settings:
    """As `load_settings`, from the bytes of a file, with `changes` made; `file` is what messages call it."""
    try:
        text = data.decode("utf-8-sig")  # Windows' editor puts a mark before the text
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        seen = data.splitlines()[line - 1].decode("cp1252", "replace").strip()
        raise SettingsError([f"{file}, line {line}: saw {seen!r} in another encoding, expected UTF-8"]) from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_broken_toml(file, text, str(error))]) from error
    if changes:
        text = edited(text, changes)
        data, content = text.encode("utf-8"), tomllib.loads(text)
    if not plans and "task" not in content:
        _forecasts_only(content)
    if wrong := supplier_problems(content):
        raise SettingsError([f"{file}: {line}" for line in wrong])
    with_suppliers(content)
    _holidays(content, file)
    _what_follows(content)
    _closed_effort(content)
    if isinstance(content.get("actions"), dict) and (
        content["actions"].get("multiples") is not None or content["actions"].get("lots")
    ):
        _place_holders(content, file)
    try:
        # By way of JSON, because there lists may become tuples although types are strict.
        found: Any = file_model().model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise SettingsError([_line(e, file) for e in _one_each(error.errors())]) from error
    problems: list[str] = []

    def make(table: str, cls: type[Any], model: BaseModel) -> Any:
        given = {k: getattr(model, k) for k in model.model_fields_set if k not in _OURS}
        plain = {k: v for k, v in given.items() if v is not None}
        try:
            return cls(**plain)
        except InputError as error:
            problems.append(f"{file}: {table}.{str(error).removeprefix(f'{table}.')}")
            return None

    if missing := [name for name in ("task", "policy") if plans and getattr(found, name) is None]:
        raise SettingsError([f"{file}: {name}: missing, expected a table" for name in missing])
    task: Any = None
    policy: Any = None
    if found.task is not None:
        kind = task_classes().get(found.task.name)
        task = make("task", kind, found.task) if kind is not None else _own(found.task.object, file, problems)
        _check_sizes(found, kind or task, file, problems)
    if found.policy is not None:
        if found.policy.depth is None:
            raise SettingsError([f"{file}: policy.depth: missing, expected how many periods to plan ahead, such as 7"])
        policy = make("policy", policy_classes()[found.policy.name], found.policy)
        _check_mode(found, file, problems)
        _check_shared(found, task, file, problems)
    gate = make("gate", Gate, found.gate)
    calibration = make("calibration", Calibration, found.calibration)
    proof, run = Proof(**found.proof.model_dump()), Run(**found.run.model_dump())
    forecaster = make("forecaster", forecaster_classes()[found.forecaster.name], found.forecaster)
    if found.columns.known and forecaster is not None:
        if not getattr(forecaster, "takes_known", False):
            text = f"{found.forecaster.name!r} with columns.known, expected 'auto', 'unbiased_ridge', 'ridge_paths' or "
            problems.append(f"{file}: forecaster.name: saw {text}'ridge_ensemble': others cannot use them")
        if not found.files.future:
            problems.append(f"{file}: files.future: missing, expected a file with future values of columns.known")
    if task is not None and found.forecast.recalibrate != "off" and _fields(task) > 1:
        problems.append(
            f"{file}: forecast.recalibrate: saw {found.forecast.recalibrate!r}, expected 'off': outcomes have several "
            "fields"
        )
    if task is not None and policy is not None:
        try:
            task.for_planning(policy, found.actions)
        except InputError as error:
            problems.append(f"{file}: {error}")
    if problems:
        raise SettingsError(problems)
    closed = policy is not None and policy.mode == "closed"
    if task is not None and closed and getattr(task, "unmet", "") == "lost" and not task.is_planned:
        task = dataclasses.replace(task, merge_arrivals=True)  # the same costs, far fewer states
    return Settings(
        file=file, text=text, digest=hashlib.sha256(data).hexdigest(), units=found.units, currency=found.currency,
        period=found.period, task=task, policy=policy, gate=gate, calibration=calibration, proof=proof,
        actions=found.actions, forecast=found.forecast, forecaster=forecaster, columns=found.columns,
        backtest=found.backtest, run=run, shared=found.shared, log=found.log,
        without_forecast=found.gate.without_forecast, files=found.files, orders=found.orders,
        shared_gap=found.gate.shared_gap, shared_serve=found.gate.shared_serve,
    )  # fmt: skip


def _fields(task: Any) -> int:
    """How many numbers of an outcome are forecast."""
    return int(task.task().fields) - len(getattr(task, "drawn", ()))


def _check_sizes(found: Any, task: Any, file: str, problems: list[str]) -> None:
    """[actions] against what the task can do."""
    sizes = found.actions
    if sizes.multiples is not None and not hasattr(task, "scaled"):
        problems.append(f"{file}: actions.multiples: saw a list, expected nothing: {found.task.name} cannot be scaled")
    if sizes.lots and (sizes.multiples is not None or not hasattr(task, "lots")):
        problems.append(f"{file}: actions.lots: expected no multiples beside it, and a task with lots")
    if (sizes.periods or sizes.batch) and sizes.multiples is None:
        problems.append(f"{file}: actions.periods, actions.batch: expected multiples beside them")
    if any(b <= a for a, b in pairwise((0, *sizes.periods))):
        problems.append(
            f"{file}: actions.periods: saw {list(sizes.periods)}, expected ascending whole numbers from 1 on"
        )


def _check_mode(found: Any, file: str, problems: list[str]) -> None:
    """[policy] mode against what files hold and the task can do."""
    if found.policy.mode == "scores":
        problems.append(f"{file}: policy.mode: saw 'scores', expected 'mean' or 'members': files hold forecasts")
    if found.policy.mode == "closed" and getattr(found.task, "spoilage", 0.0):
        problems.append(
            f"{file}: policy.mode: saw 'closed', expected 'members', because task.spoilage leaves the lattice"
        )


def _check_shared(found: Any, task: Any, file: str, problems: list[str]) -> None:
    """[shared] against what the task can count and the search values."""
    if not found.shared:
        return
    uses = [] if task is None else list(task.task().uses)
    if found.policy.mode != "closed" and not getattr(found.policy, "every_action", False):
        problems.append(
            f"{file}: policy.mode: saw {found.policy.mode!r}, expected 'closed' (or every_action = true), which values "
            "every size, because [shared] may send another than the best one"
        )
    for name, one in found.shared.items():
        where = f"{file}: shared.{name}"
        if (one.limit is None) == (not one.dates):
            problems.append(f"{where}: expected limit, or dates (a file of limits by date), one of them")
        if one.limit is not None and isinstance(one.limit, dict) != bool(one.per):
            problems.append(f"{where}.limit: expected one number, or with `per` a table with one for each group")
        if task is not None and not uses:
            problems.append(f"{where}: actions of {found.task.name} use nothing that is counted")
        elif one.use and one.use not in uses:
            problems.append(f"{where}.use: saw {one.use!r}, expected one of {', '.join(map(repr, uses))}")


def find_settings(folder: Path | None = None) -> Path:
    """The settings file of `folder` (this one when None): `ucsearch.toml`, there or in a folder above it, else the only
    settings file that is there. Paths are as a person in that folder would write them."""
    here = Path() if folder is None else folder
    for place in (here, *(Path(os.path.relpath(above, Path())) for above in here.absolute().parents)):
        if (place / USUAL_NAME).is_file():
            return place / USUAL_NAME
        if place is here and (found := sorted(path for path in here.glob("*.toml") if _is_settings(path))):
            if len(found) > 1:
                raise InputError(
                    "-c", ", ".join(path.name for path in found), "one settings file in this folder",
                    hint=f"Say which: -c {found[0].name}.",
                )  # fmt: skip
            return found[0]
    raise NoSettings(
        "-c", "no settings file in this folder", f"{USUAL_NAME}, or one .toml file with [task] and [policy]",
        hint="`ucsearch new inventory` writes one; -c FILE names one elsewhere.",
    )  # fmt: skip


def _is_settings(path: Path) -> bool:
    """Whether a TOML file has the tables that every settings file has, if only with a typing error elsewhere."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return False
    return all(re.search(rf"^\s*\[{table}\]", text, re.MULTILINE) is not None for table in ("task", "policy"))


def _own(text: str, file: str, problems: list[str]) -> Any:
    """A task of one's own; a Python file is looked for beside the settings file."""
    try:
        return own_task(text, Path(file).parent)
    except InputError as error:
        problems.append(f"{file}: task.object: saw {error.seen}, expected {error.expected}")
        return None


def _closed_effort(content: dict[str, Any]) -> None:
    """In closed loop the search is its own proof: the effort given to the proof is the search's."""
    policy, proof = content.get("policy"), content.get("proof")
    if not (isinstance(policy, dict) and isinstance(proof, dict)) or policy.get("mode") != "closed":
        return
    if policy.get("name") == "exact" and "node_budget" in proof:
        content["policy"] = {"node_budget": proof["node_budget"], **policy}


def _holidays(content: dict[str, Any], file: str) -> None:
    """The dates of [files] holidays, a line each, go to the task; what follows a date in its line is a comment."""
    files, task = content.get("files"), content.get("task")
    if not (isinstance(files, dict) and isinstance(task, dict) and files.get("holidays")):
        return
    path = Path(file).parent / str(files["holidays"])
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file}: files.holidays: {path} cannot be read ({error})"]) from error
    days = []
    for number, line in enumerate(lines, 1):
        cell = re.split(r"[,;\s]", line.strip(), maxsplit=1)[0].strip('"')
        if not cell or (number == 1 and not cell[:1].isdigit()):
            continue
        try:
            days.append(date.fromisoformat(cell).isoformat())
        except ValueError:
            raise SettingsError([f"{path}, line {number}: saw {cell!r}, expected a date such as 2024-12-25"]) from None
    content["task"] = {"holidays": sorted(set(days)), **task}


def _what_follows(content: dict[str, Any]) -> None:
    """Fill in what follows for the task from what other settings say, where its own are left out."""
    task = content.get("task")
    kind = task_classes().get(task.get("name", "")) if isinstance(task, dict) else None
    if kind is None:
        return
    for table, values in kind.defaults(content).items():
        if isinstance(content.get(table), dict):
            content[table] = {**values, **content[table]}


def _forecasts_only(content: dict[str, Any]) -> None:
    """Settings without a task: the model is chosen by each series' past, and nothing is negative unless it was."""
    said = content.get("forecaster", {})
    if isinstance(said, dict):
        content["forecaster"] = {"name": "auto", "floor": 0.0, **said}


def _place_holders(content: dict[str, Any], file: str) -> None:
    """With multiples the order sizes are only counted, so they need not be given."""
    task, multiples = content.get("task"), content["actions"].get("multiples")
    lots = content["actions"].get("lots", 0)
    if isinstance(task, dict) and multiples is None and isinstance(lots, int):
        multiples = list(range(lots))
    if not isinstance(task, dict) or not isinstance(multiples, list):
        return
    if not hasattr(task_classes().get(task.get("name", "")), "scaled"):
        return  # refused later, in words
    if "order_sizes" in task:
        line = f"{file}: task.order_sizes: saw a list, expected nothing beside actions.multiples, which replaces it"
        raise SettingsError([line])
    periods = content["actions"].get("periods", [])
    count = len(multiples) + 1 + (len(periods) if isinstance(periods, list) else 0)
    count += content["actions"].get("batch") is True
    content["task"] = {**task, "order_sizes": [float(i) for i in range(count)]}


_TOML_RULES = (  # what a line holds, or what tomllib says of it, and what belongs there
    (r"=\s*[+-]?\d+,\d", "a number with a point, such as 4.00"),
    (r"(?i)=\s*(yes|no|on|off|true|false)\b", "true or false in small letters"),
    (r"=\s*[^\W\d_]", 'a text in quotes, such as "EUR"'),
    (r"^Cannot (overwrite|declare)", "each key and each table once"),
    (r"[Uu]nescaped|Invalid hex|^Illegal character '\\\\", "a path with / in place of \\"),
)


def _broken_toml(file: str, text: str, message: str) -> str:
    """What tomllib says of a file, with the line and what belongs there."""
    place = re.search(r" \(at (?:line (\d+)|end of document).*\)$", message)
    reason = message if place is None else message[: place.start()]
    lines = text.splitlines() or [""]
    number = len(lines) if place is None or place[1] is None else int(place[1])
    seen = lines[min(number, len(lines)) - 1].strip()
    rule = next((words for rule, words in _TOML_RULES if re.search(rule, seen) or re.search(rule, reason)), "")
    expected = rule or f"TOML ({reason[:1].lower()}{reason[1:]})"
    return f"{file}, line {number}: saw {seen!r}, expected {expected}"


_BRANCH = re.compile(r"(float|int|str|bool|list\[.*|dict\[.*|tuple\[.*)$")  # how pydantic names the types of a union


def _one_each(errors: Sequence[Any]) -> list[Any]:
    """One error for each value: where several types are allowed, what is wrong for the type that was meant."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for error in errors:
        loc = error["loc"]
        at = next((i for i, x in enumerate(loc) if i > 1 and isinstance(x, str) and _BRANCH.match(x)), None)
        if at is None:
            found[(*loc, error["type"])] = [error]
        else:
            inside = error | {"loc": (*loc[:at], *loc[at + 1 :])}
            found.setdefault(loc[:at], []).append(inside)
    out = []
    for loc, tried in found.items():
        deeper = [e for e in tried if len(e["loc"]) > len(loc)]
        if deeper:
            out += _one_each(deeper)
        elif len(tried) == 1:
            out += tried
        else:
            words = [_expected(e["msg"]) for e in tried]
            out.append(tried[0] | {"msg": f"{', '.join(words[:-1])} or {words[-1]}"})
    return out


def _expected(message: str) -> str:
    """What pydantic expects, in the words of TOML."""
    text = message.removeprefix("Input should be ").removeprefix("Input should have ")
    return _TOML_WORDS.get(text, text)


_TOML_WORDS = {
    "a valid array": "a list", "an object": "a table", "a valid dictionary": "a table",
    "a valid integer": "a whole number", "a valid number": "a number", "a valid string": "a text in quotes",
    "a valid boolean": "true or false",
}  # fmt: skip


def _line(error: Any, file: str) -> str:
    """One pydantic error as one line: file, key, what was seen, what is allowed."""
    loc = [str(x) for x in error["loc"]]
    names = {name for classes in _named().values() for name in classes}
    # The discriminator's value stands in the path; it is no key of the file.
    where = [x for i, x in enumerate(loc) if not (i == 1 and x in names)]
    key = ".".join(where) or "the file"
    kind, context = error["type"], error.get("ctx", {})
    if where == ["gate", "time_budget_s"]:
        return f"{file}: {key}: not for files, because a resumed run must decide the same; use gate.node_budget"
    if kind == "extra_forbidden":
        return f"{file}: {key}: unknown key, expected {_allowed(loc[:-1], where[-1])}{_elsewhere(where)}"
    if kind == "missing" and where[-1] == "name":
        return f"{file}: {key}: missing, expected one of {_names(where[0])}"
    if kind == "missing":
        return f"{file}: {key}: missing, expected {'a table' if len(where) == 1 else 'a value'}"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        seen = "nothing" if kind.endswith("found") else repr(context["tag"])
        return f"{file}: {key}.name: saw {seen}, expected one of {_names(where[0])}"
    seen = repr(error["input"]) if isinstance(error["input"], str | int | float | bool) else "a value"
    if kind == "literal_error":
        return f"{file}: {key}: saw {seen}, expected one of {context['expected']}"
    if where == ["shared"]:
        return f"{file}: shared: saw {type(error['input']).__name__}, expected [shared] with a table for each limit"
    text = _expected(error["msg"])
    return f"{file}: {key}: saw {seen}, expected {text[:1].lower()}{text[1:]}"


def _names(table: str) -> str:
    return ", ".join(map(repr, _named()[table]))


def _named() -> dict[str, dict[str, type[Any]]]:
    """The tables that choose a class by name."""
    return {"task": {**task_classes(), OWN: OwnObject}, "policy": policy_classes(), "forecaster": forecaster_classes()}


def _elsewhere(where: Sequence[str]) -> str:
    """Which tables have a key that stands in none or in another one."""
    model: Any = file_model()
    found = []
    for table in model.model_fields:
        if table in _named():
            classes: dict[str, Any] = dict(_named()[table])
            known = any(where[-1] in model_of(cls, tag).model_fields for tag, cls in classes.items())
        else:
            known = where[-1] in getattr(model.model_fields[table].annotation, "model_fields", {})
        if known and table != where[0]:
            found.append(f"[{table}]")
    return f". It is a key of {' and '.join(found)}" if found and where[-1] != "name" else ""


def _allowed(loc: Sequence[str], wrong: str) -> str:
    """The keys a table may have, the likeliest first."""
    model: Any = file_model()
    if loc:
        classes = _named().get(loc[0])
        if classes is not None:
            tag = loc[1] if len(loc) > 1 else next(iter(classes))
            cls: Any = classes[tag]
            model = model_of(cls, tag)
        else:
            model = _LISTED.get(loc[0]) or model.model_fields[loc[0]].annotation
    keys = list(model.model_fields)
    close = difflib.get_close_matches(wrong, keys, n=1)
    hint = f"{close[0]!r}? All keys: " if close else "one of "
    return hint + ", ".join(keys)
