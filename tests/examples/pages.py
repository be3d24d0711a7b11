"""Read a page of the documents and do what it says: files, Python, commands; what is printed is what the page shows.

A block with a title (```toml title="name"```, or any language) is written as a file. A block of ```python``` is run,
all of a page in one namespace; a block of ```text``` right after it is what it prints. In a block of ```console```
lines that begin with `$ ` are typed, and the lines below are what appears. `...` stands for anything, as in doctest;
ids, tokens and times count by their length alone; a last line `(exit code N)` says how the command ends, 0 otherwise.
`ucsearch ... &` runs on beside the page until its end. A block below `<!-- slow -->` is left to the slow tests; no
later block may need it.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FENCE = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^\1```$", re.S | re.M)
COMMAND = "from ucsearch.cli import main; main()"
VARIES = (  # with the clock or by chance: ids, heads, tokens, times; only their length counts
    re.compile(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b"),
    re.compile(r"\bucs_[\w-]{20,}"),
    re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(?:\+00:00|Z)"),
    re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\b"),
)
PROGRESS = re.compile(r"^\w+: \d+ of \d+\n", re.M)  # told where something takes its time, so on slow machines alone
WIDE = "120"  # columns of the terminal
STARTS_WITHIN = 60.0  # seconds until a program beside the page has said what the page shows


@dataclass
class Block:
    language: str
    title: str
    text: str
    follows: bool  # nothing but blank lines between it and the block before
    slow: bool  # below a line `<!-- slow -->`: takes longer than a test should


def blocks_of(text: str) -> list[Block]:
    found, end = [], -1
    for match in FENCE.finditer(text):
        indent, language, title, body = match[1], match[2], match[3] or "", match[4]
        body = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        between = text[max(end, 0) : match.start()]
        slow = between.rstrip().endswith("<!-- slow -->")
        found.append(Block(language, title, body, end >= 0 and not between.replace("<!-- slow -->", "").strip(), slow))
        end = match.end()
    return found


def commands_of(text: str) -> list[tuple[str, str]]:
    """What is typed, with what appears below."""
    typed: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            typed.append((line[2:].rstrip("\n"), ""))
        elif typed and typed[-1][0].endswith("\\"):
            typed[-1] = (typed[-1][0][:-1].rstrip() + " " + line.strip(), "")
        elif typed:
            typed[-1] = (typed[-1][0], typed[-1][1] + line)
        else:
            raise AssertionError(f"a line of output before any command: {line!r}")
    return typed


@dataclass
class Reader:
    """Somebody who types what a page says, in a folder of their own."""

    folder: Path
    name: str
    swaps: dict[str, str] = field(default_factory=dict)  # what the page says: what is typed instead (ports)
    beside: list[subprocess.Popen[str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    types_all: bool = True  # False: commands are typed below `<!-- slow -->` alone, the others are only shown
    written: list[str] = field(default_factory=list)  # modules

    def read(self, text: str, slow: bool = False) -> int:
        """Do all of it; how many outputs were compared."""
        space: dict[str, Any] = {"__name__": "document"}
        printed, compared = None, 0
        sys.dont_write_bytecode = True  # a file may be changed within the second, to the same size
        sys.path.insert(0, str(self.folder))  # as it is for somebody who starts Python in this folder
        for i, block in enumerate(blocks_of(text)):
            place = f"{self.name}, block {i + 1}"
            body = self._swapped(block.text)
            if block.slow and not slow:
                printed = None
                continue
            if block.title:
                (self.folder / block.title).write_text(body, encoding="utf-8")
                self.written += [Path(block.title).stem] if block.title.endswith(".py") else []
            elif block.language == "python":
                printed = self._python(body, space, f"<{place}>")
                continue
            elif block.language == "text" and block.follows and printed is not None:
                compare(place, body, printed)
                compared += 1
            elif block.language == "console" and (block.slow or self.types_all):
                for typed, shown in commands_of(body):
                    self._type(f"{place}: {typed}", typed, shown)
                    compared += bool(shown.strip())
            printed = None
        return compared

    def _swapped(self, text: str) -> str:
        for old, new in self.swaps.items():
            text = text.replace(old, new)
        return text

    def _python(self, code: str, space: dict[str, Any], file: str) -> str:
        # Functions are read back by their source, as they would be from a file.
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught):
            exec(compile(code, file, "exec"), space)
        return caught.getvalue()

    def _type(self, place: str, typed: str, shown: str) -> None:
        ends = re.search(r"^\(exit code (\d+)\)\n?\Z", shown, re.M)
        code = int(ends[1]) if ends else 0
        shown = shown[: ends.start()] if ends else shown
        found = re.fullmatch(r"export (\w+)=\$\(cat ([\w./-]+)\)", typed)
        if found:
            self.environment[found[1]] = (self.folder / found[2]).read_text(encoding="utf-8").strip()
            return
        if typed.startswith("ucsearch ") and typed.endswith("&"):
            self._start(place, shlex.split(typed[:-1])[1:], shown)
            return
        said, ended = self._run(typed)
        assert ended == code, f"{place}\nended with {ended}, expected {code}\n{said}"
        compare(place, shown, said if alike(shown, said) else PROGRESS.sub("", said))  # a page may show `...` for them

    def _run(self, typed: str) -> tuple[str, int]:
        """`ucsearch` in this process, also with `> file`; anything else in a shell."""
        found = re.fullmatch(r"ucsearch ([^|<>;$*]+?)(?: > ([\w./-]+))?", typed)
        if found is None:
            return self._shell(typed)
        said, ended = self._ucsearch(shlex.split(found[1]))
        if found[2]:
            (self.folder / found[2]).write_text(said, encoding="utf-8")
            said = ""
        return said, ended

    def _ucsearch(self, words: list[str]) -> tuple[str, int]:
        """In this process: kernels run as text, and nothing starts anew."""
        from ucsearch.cli import main

        for module in self.written:  # a new process would read them anew
            sys.modules.pop(module, None)
        linecache.checkcache()
        said, code = io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            for name, value in {**self.environment, "COLUMNS": WIDE}.items():
                patch.setenv(name, value)
            try:
                main(words)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return said.getvalue(), code

    def _shell(self, line: str) -> tuple[str, int]:
        line = f'ucsearch() {{ "{sys.executable}" -c "{COMMAND}" "$@"; }}\n{line}'
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self._env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip
        return done.stdout, done.returncode

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "NUMBA_DISABLE_JIT": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": WIDE}

    def _start(self, place: str, words: list[str], shown: str) -> None:
        with (self.folder / ".said").open("w") as out:
            started = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *words], cwd=self.folder, env=self._env(), text=True, stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.beside.append(started)
        until = time.monotonic() + STARTS_WITHIN
        while True:
            said = (self.folder / ".said").read_text(encoding="utf-8")
            if said.count("\n") >= shown.count("\n") and (alike(shown, said) or started.poll() is not None):
                break
            if time.monotonic() > until or started.poll() is not None:
                break
            time.sleep(0.05)
        compare(place, shown, said)

    def leave(self) -> None:
        """End what was started, forget what was imported."""
        if str(self.folder) in sys.path:
            sys.path.remove(str(self.folder))
        for module in self.written:
            sys.modules.pop(module, None)
        for process in self.beside:
            process.terminate()
            process.wait(30)


def alike(shown: str, said: str) -> bool:
    return doctest.OutputChecker().check_output(_bare(shown), _bare(said), doctest.ELLIPSIS)


def compare(place: str, shown: str, said: str) -> None:
    """Blank ends of lines do not count; `...` stands for anything."""
    if not alike(shown, said):
        change = difflib.unified_diff(
            _bare(shown).splitlines(), _bare(said).splitlines(), "the page", "printed", lineterm=""
        )
        pytest.fail(f"{place}\n" + "\n".join(change), pytrace=False)


def _bare(text: str) -> str:
    for pattern in VARIES:
        text = pattern.sub(lambda found: "#" * len(found[0]), text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"
