"""A code object in normal form: what it does, without where its text stood.

Two functions have equal forms when they were compiled from the same statements by the same version of Python, whether
or not their source text is at hand. Comments, line breaks, docstrings and annotations of arguments leave no mark; names
of locals do. Another minor version of Python compiles the same text to other instructions.
"""

from __future__ import annotations

import dis
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["PYTHON", "attributes", "code_form", "loads", "nested"]

PYTHON = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"

# Instructions that depend on lines or on the machine's word, not on what is computed.
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL", "NOT_TAKEN"})
_KINDS = 0x20 | 0x80 | 0x100 | 0x200 | 0x4 | 0x8  # generator, coroutine, iterable, async generator, *args, **kwargs


def code_form(code: types.CodeType, describe: Callable[[Any], str]) -> Any:
    """Nested tuples of texts and numbers; `describe` puts a constant into words that are the same in every process."""
    kept = [i for i in dis.get_instructions(code) if i.opname not in _SILENT]
    place: dict[int, int] = {}
    for n, i in enumerate(kept):
        place[i.offset] = n

    def where(offset: int) -> int:
        """The first instruction kept at or after an offset."""
        while offset not in place and offset < len(code.co_code):
            offset += 2
        return place.get(offset, len(kept))

    form: list[Any] = []
    for i in kept:  # pairs of fast loads and stores are made only when both stand on one line
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            form.append((i.opname, where(int(i.argval))))
        elif isinstance(i.argval, tuple) and len(verbs := re.findall("LOAD|STORE", i.opname)) == 2:
            form.extend((f"{verb}_FAST", name) for verb, name in zip(verbs, i.argval, strict=True))
        elif isinstance(i.argval, types.CodeType):
            form.append((i.opname, code_form(i.argval, describe)))
        elif i.opcode in dis.hasconst:
            form.append((i.opname, describe(i.argval)))
        elif i.argval is None or isinstance(i.argval, int | str):
            form.append((i.opname.replace("_BORROW", ""), i.argval))
        else:
            form.append((i.opname, i.argrepr))
    handlers = [
        (where(e.start), where(e.end), where(e.target), e.depth, e.lasti)
        for e in getattr(dis.Bytecode(code), "exception_entries", ())
    ]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS)
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return (counts, arguments, code.co_freevars, tuple(form), tuple(handlers))


def loads(code: types.CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every global or captured name that is read, inner functions included, with the attributes read off it at once."""
    for one in (code, *nested(code)):
        found = [i for i in dis.get_instructions(one) if i.opname not in _SILENT and i.opname != "PUSH_NULL"]
        for n, i in enumerate(found):
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"):
                chain = []
                for after in found[n + 1 :]:
                    if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                        break
                    chain.append(str(after.argval))
                yield str(i.argval), tuple(chain)
            elif i.opname == "IMPORT_NAME":
                yield f"import {i.argval}", ()


def attributes(code: types.CodeType) -> set[str]:
    """Every name that is read off an object, inner functions included."""
    reads = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
    return {str(i.argval) for one in (code, *nested(code)) for i in dis.get_instructions(one) if i.opname in reads}


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from nested(const)
