"""The documents as a site: `make docs` stages them with generated reference pages, builds strictly, checks every link.

Staged are docs/, and the project's own pages (contributing, security, changes) under names of the site. Three pages are
generated, whole or in part: the Python reference from the docstrings of every public name, the options from the
commands, the settings from the schema of the settings file.
Links from the documents to files outside docs/ become links to those pages, or plain text where there is none.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "site" / "source"
SITE = ROOT / "build" / "site" / "html"
CARDS = ROOT / "src" / "ucsearch" / "lab" / "suites" / "cards"
PROJECT = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}

# What a reader looks for together; every public name must be in one of these (checked).
GROUPS = {
    "Problems": ("Task", "Continuation", "Condition", "check_task"),
    "Forecasts": ("Trace",),
    "Ways to search": ("UCBeam", "ParetoBeam", "CertifiedBeam", "ConstrainedBeam", "MCTS", "Exact"),
    "Search": ("search", "search_panel", "Plan", "Status", "warm"),
    "Policies for many states": ("solve", "average_cost"),
    "Proof": ("certify", "certify_panel", "Proof", "Run"),
    "Decide": ("decide", "decide_panel", "Decision", "DecisionPanel", "Outcome"),
    "Gate": ("Gate", "Reason", "Calibration"),
    "Shared budgets": ("allocate", "Allocation", "Shared"),
    "Records": ("AuditLog",),
    "Errors": ("UCSearchError", "InputError", "TaskError"),
}  # fmt: skip
MODULES = {
    "Checks of a task": "ucsearch.check",
    "Forecasts as traces": "ucsearch.trace",
    "Plans of a panel": "ucsearch.engine",
    "Certificates": "ucsearch.certificate",
    "Decisions": "ucsearch.decision",
    "Ready problems": "ucsearch.tasks",
    "Environments": "ucsearch.lab.gym",
    "Client of the service": "ucsearch.client",
    "Monitor": "ucsearch.monitor",
    "Jobs of any size": "ucsearch.scale",
    "Forecasts of other libraries": "ucsearch.adapters",
    "Forecasters": "ucsearch.forecast",
    "Comparators": "ucsearch.lab.comparators",
    "Backtests": "ucsearch.replay",
    "Inventory classics": "ucsearch.replay.classics",
    "Data sets": "ucsearch.lab.data",
    "Planning from files": "ucsearch.planner",
    "Settings files": "ucsearch.planner.settings",
    "Learned policies": "ucsearch.lab.learned",
    "Evaluation": "ucsearch.lab.suites",
    "Log and records": "ucsearch.records",
    "Verifier": "ucsearch.verify",
}

# Functions that are called as their modules are, so that their packages cannot list them.
ALSO = {"ucsearch.replay": ("roster", "tune", "walk")}


def stage() -> None:
    """Fill the folder that the site is built from."""
    shutil.rmtree(STAGE.parent, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    for name, target in PROJECT.items():
        (STAGE / target).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(CARDS, STAGE / "reference" / "cards")
    for folder, title in (("tasks", "Ready problems"), ("cards", "Benchmark cards")):
        listed = sorted((STAGE / "reference" / folder).glob("*.md"))
        rows = [f"- [{_title(p)}]({p.name})" for p in listed]
        text = f"# {title}\n\n" + "\n".join(rows) + "\n"
        (STAGE / "reference" / folder / "index.md").write_text(text, encoding="utf-8")
    (STAGE / "reference" / "python").mkdir()
    for name, text in _python().items():
        (STAGE / "reference" / "python" / name).write_text(text, encoding="utf-8")
    guide = STAGE / "reference" / "commands.md"
    guide.write_text(commands(guide.read_text(encoding="utf-8")), encoding="utf-8")
    (STAGE / "reference" / "settings.md").write_text(settings(), encoding="utf-8")
    for path in STAGE.rglob("*.md"):
        path.write_text(_links(path, path.read_text(encoding="utf-8")), encoding="utf-8")


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


def _python() -> dict[str, str]:
    """Page by page: what `import ucsearch` gives, then every public package."""
    import ucsearch

    grouped = {name for names in GROUPS.values() for name in names}
    also = sorted(set(ucsearch.__all__) - grouped)
    lines = [
        "# Python reference",
        "",
        "What `import ucsearch as uc` gives. The packages beside it have pages of their own:",
        "",
    ]
    lines += ["| package | |", "|---|---|"]
    lines += [f"| [`{m}`]({m.rpartition('.')[2]}.md) | {title} |" for title, m in MODULES.items()] + [""]
    shown: dict[Any, str] = {}
    for title, names in {**GROUPS, **({"More": tuple(also)} if also else {})}.items():
        lines += [f"## {title}", ""]
        for name in names:
            found = getattr(ucsearch, name)
            shown[found] = f"uc.{name}"
            lines += _entry(found)
    pages = {"ucsearch.md": lines}
    for title, module in MODULES.items():
        lines = [
            f"# {title}",
            "",
            f"::: {module}",
            "    options:",
            "      members: false",
            "      heading_level: 2",
            "",
        ]
        pages[f"{module.rpartition('.')[2]}.md"] = lines
        for name, found in _listed(module):
            if not (inspect.isfunction(found) or inspect.isclass(found)):
                continue
            if found in shown:
                lines += [f"`{module}.{name}` is `{shown[found]}`.", ""]
                continue
            shown[found] = f"{module}.{name}"
            lines += _entry(found)
    return {name: "\n".join(text) for name, text in pages.items()}


def _listed(module: str) -> Iterator[tuple[str, Any]]:
    """The public names of a module, with what they are."""
    home = importlib.import_module(module)
    for name in sorted({*home.__all__, *ALSO.get(module, ())}):
        own = importlib.import_module(f"{module}.{name}") if name in ALSO.get(module, ()) else home
        yield name, getattr(own, name)


def _entry(found: Any) -> list[str]:
    """What it is, its fields, then properties and methods. Meaning and unit of a field are beside it in the source."""
    name = f"{found.__module__}.{found.__name__}"
    rows = _fields(found) if inspect.isclass(found) else []
    if not rows:
        return [f"::: {name}", ""]
    lines = [f"::: {name}", "    options:", "      members: false", ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    kinds = (property, classmethod, staticmethod)
    for key, member in vars(found).items():
        if key.startswith("_") or not (inspect.isfunction(member) or isinstance(member, kinds)):
            continue
        if inspect.getdoc(getattr(found, key)):
            lines += [f"::: {name}.{key}", "    options:", "      heading_level: 4", ""]
    return lines


def _fields(found: type[Any]) -> list[str]:
    from ucsearch.planner.settings import field_notes

    notes, rows = field_notes(found), []
    if dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            if field.name.startswith("_") or not (field.init or field.name in notes):
                continue
            made = "made" if field.default_factory is not dataclasses.MISSING else "required"
            default = f"`{field.default!r}`" if field.default is not dataclasses.MISSING else made
            rows.append(_row(field.name, field.type, default, notes.get(field.name, "")))
    elif issubclass(found, tuple | dict):  # a NamedTuple or a TypedDict
        defaults = getattr(found, "_field_defaults", {})
        for name, kind in found.__annotations__.items():
            optional = "optional" if issubclass(found, dict) else "required"
            default = f"`{defaults[name]!r}`" if name in defaults else optional
            rows.append(_row(name, getattr(kind, "__forward_arg__", kind), default, notes.get(name, "")))
    return rows


def _row(name: str, kind: object, default: str, note: str) -> str:
    shown = f"`{kind if isinstance(kind, str) else getattr(kind, '__name__', kind)}`"
    return f"| `{name}` | {shown} | {default} | {note} |"  # pipes in backquotes are no columns


def commands(guide: str) -> str:
    """The guide to the command line, with what each command does and its options below its heading."""
    import typer.main

    from ucsearch.cli.main import app

    generated = dict(_described(typer.main.get_command(app), ["ucsearch"]))

    def section(match: re.Match[str]) -> str:
        return "\n".join([match[0], "", *generated.get(match[1], ())]).rstrip()

    return re.sub(r"^##+ (ucsearch .*)$", section, guide, flags=re.M)


def _described(command: object, path: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Every command by its whole name, as it describes itself."""
    children = getattr(command, "commands", None)
    if children is not None:
        for name in sorted(children):
            yield from _described(children[name], [*path, name])
        return
    text = re.sub(r"\s*\n\s*", " ", (getattr(command, "help", None) or "").strip())
    rows = []
    for p in getattr(command, "params", ()):
        name = (
            " / ".join(f"`{x}`" for x in (*p.opts, *p.secondary_opts))
            if p.param_type_name == "option"
            else f"`{p.name.upper()}`"
        )
        meaning = re.sub(r"\s+", " ", (getattr(p, "help", None) or "")).replace("|", "\\|")
        default = "" if p.default in (None, False, "") or callable(p.default) or p.required else f"`{p.default}`"
        rows.append(f"| {name} | {meaning} | {'required' if p.required else default} |")
    table = ["", "| option | meaning | default |", "|---|---|---|", *rows] if rows else []
    yield " ".join(path), [text, *table]


# What each table of a settings file is for; the keys and their meanings come from the schema.
TABLES = {
    "files": "Where your files are, relative to the settings file.",
    "columns": "What your files call things, and how they write numbers and dates.",
    "task": "The problem. `name` says which one; the other keys are its parameters.",
    "actions": "Order sizes that fit each series.",
    "policy": "How to search. `name` says which search.",
    "proof": "How much effort a proof may take.",
    "gate": "Conditions for release.",
    "calibration": "Measured faults of your forecaster, for the gate.",
    "forecast": "How forecasts are read and prepared.",
    "forecaster": "The built-in forecaster of `forecast`, `calibrate`, `backtest` and `tune`.",
    "backtest": "What is replayed.",
    "orders": "How `ucsearch orders` writes its files.",
    "run": "How the work is done. No decision depends on these keys.",
    "log": "What the log keeps of a large run.",
    "shared": "Limits that many series share. Each key of `[shared]` names a limit, with these keys:",
    "supplier": "Two suppliers in place of one: two tables `[[supplier]]` with these keys.",
}


def settings() -> str:
    """Every key of the settings file, from the schema that checks it."""
    from ucsearch.planner.settings import json_schema

    schema = json_schema()
    parts = schema["$defs"]
    top = {key: value for key, value in schema["properties"].items() if not _records(value, parts)}
    lines = [
        "# Settings reference",
        "",
        "Every key of the settings file (`ucsearch.toml`), generated from the schema that checks it. "
        "[Plan from files](../how-to/plan-from-files.md#settings) explains the common ones; "
        "`ucsearch tasks --schema` prints the JSON Schema.",
        "",
        "## At the top",
        "",
        *_keys(top, parts, ()),
    ]
    for table, text in TABLES.items():
        records = _records(schema["properties"][table], parts)
        lines += ["", f"## [{table}]", "", text, ""]
        for record in records:
            name = record["properties"].get("name", {}).get("const")
            if name:
                lines += [f"### {table}: {name}", "", record.get("description", ""), ""]
            lines += _keys(record["properties"], parts, record.get("required", ()))
            lines += [""]
    return "\n".join(lines)


def _records(value: dict[str, Any], parts: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables that a key may hold; none for a plain value."""
    if "$ref" in value:
        found = parts[value["$ref"].rpartition("/")[2]]
        return [found] if "properties" in found else []
    inner = [*value.get("oneOf", ()), *value.get("anyOf", ()), *value.get("allOf", ())]
    for key in ("items", "additionalProperties"):
        if isinstance(value.get(key), dict):
            inner.append(value[key])
    return [record for part in inner for record in _records(part, parts)]


def _keys(properties: dict[str, Any], parts: dict[str, Any], required: Any) -> list[str]:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, value in properties.items():
        if key == "name" and "const" in value:
            continue
        default = value.get("default")
        shown = "required" if key in required else "" if default is None else f"`{_toml(default)}`"
        meaning = re.sub(r"\s+", " ", value.get("description") or "").replace("|", "\\|")
        rows.append(f"| `{key}` | {_kind(value, parts)} | {shown} | {meaning} |")
    return rows


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _kind(value: dict[str, Any], parts: dict[str, Any]) -> str:
    """What a value may be, in the words of TOML."""
    if "$ref" in value:
        found = parts[value["$ref"].rpartition("/")[2]]
        return "table" if "properties" in found else _kind(found, parts)
    if "const" in value or "enum" in value:
        return ", ".join(f"`{_toml(v)}`" for v in value.get("enum", [value.get("const")]))
    inner = [part for part in (*value.get("anyOf", ()), *value.get("oneOf", ())) if part.get("type") != "null"]
    if inner:
        return " or ".join(dict.fromkeys(_kind(part, parts) for part in inner))
    words = {"integer": "integer", "number": "number", "string": "string", "boolean": "true or false"}
    kind = value.get("type")
    if kind == "array":
        items = value.get("items") or next(iter(value.get("prefixItems", ())), {})
        return f"list of {_kind(items, parts)}" if items else "list"
    if kind == "object":
        return "table"
    least, most = value.get("minimum", value.get("exclusiveMinimum")), value.get("maximum")
    limits = "" if least is None and most is None else f", {least} to {most}" if None not in (least, most) else ""
    limits = limits or (f", from {least}" if least is not None else f", up to {most}" if most is not None else "")
    return words.get(str(kind), "any") + limits


def _links(path: Path, text: str) -> str:
    """Links that leave docs/: to the staged page, or to nothing."""
    up = "../" * (len(path.relative_to(STAGE).parts) - 1)

    def mended(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        file, hash, anchor = target.partition("#")
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        bare = re.sub(r"^(\.\./)+", "", file)
        own = PROJECT.get(bare)
        if own is not None:
            return f"[{words}]({up}{own}{hash}{anchor})"
        if bare.startswith("src/ucsearch/lab/suites/cards"):
            file = f"{up}reference/cards{bare.removeprefix('src/ucsearch/lab/suites/cards')}"
        if path.parent.name == "cards" and file.startswith("../"):  # a card is as it was fixed; pages have folders
            found = list(STAGE.rglob(bare))
            file = found[0].relative_to(STAGE).as_posix() if found else file
            file = f"{up}{file}" if found else file
        if bare.startswith("docs/"):
            file = f"{up}{bare.removeprefix('docs/')}"
        there = path.parent / file
        if there.is_dir():
            file = f"{file.rstrip('/')}/index.md"
            there = path.parent / file
        return f"[{words}]({file}{hash}{anchor})" if there.exists() else words

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", mended, text)


class _Page(HTMLParser):
    """Ids and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for key in ("id", "name"):
            if found.get(key):
                self.ids.add(str(found[key]))
        target = found.get("href") or found.get("src")
        if target and tag in ("a", "img"):
            self.links.append(target)


def broken(site: Path) -> list[str]:
    """Links of the built pages that lead to no file or no anchor, and pictures or scripts from elsewhere."""
    pages: dict[Path, _Page] = {}
    for path in site.rglob("*.html"):
        pages[path] = _Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                wrong.append(f"{path.relative_to(site)}: {link} has no such anchor")
    return wrong


def main() -> None:
    sys.path.insert(0, str(ROOT / "src"))
    stage()
    if "--stage" in sys.argv[1:]:
        return
    done = subprocess.run(
        [sys.argv[1] if len(sys.argv) > 1 else "zensical", "build", "--strict"], cwd=ROOT, check=False
    )
    for page in SITE.rglob("*.html"):  # nothing is fetched from elsewhere: search needs a server, not a network
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r'<script[^>]* src="?https?://[^>]*></script>', "", text), encoding="utf-8")
    wrong = broken(SITE) if done.returncode == 0 else [f"zensical ended with {done.returncode}"]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(
        f"{SITE.relative_to(ROOT)}/index.html: {len(list(SITE.rglob('*.html')))} pages, every link leads somewhere; "
        f"look at it: python -m http.server -d {SITE.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    main()
