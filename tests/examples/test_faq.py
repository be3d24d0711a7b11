"""The page of questions quotes messages as the program has them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GAP = "\0"  # where a message says what it saw


@cache
def sources() -> list[str]:
    return [p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py") if "templates" not in p.parts]


@cache
def literals(source: str) -> str:
    """Every text of a module, what differs from case to case as one mark."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(p.value if isinstance(p, ast.Constant) else GAP for p in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return "\n".join(found)


def is_said(part: str) -> bool:
    """By a module that has all its words; the others are not read as code, which takes seconds."""
    words = re.findall(r"\w+", part)
    return any(part in literals(source) for source in sources() if all(word in source for word in words))


def quoted(text: str) -> list[str]:
    """The messages of the page: in backquotes, of three words or more, and not commands."""
    found = re.findall(r"`([^`\n]+)`", text)
    return [q for q in found if len(q.split()) >= 3 and not q.startswith(("ucsearch ", "python "))]


def missing(text: str) -> list[str]:
    parts = [(q, part) for q in quoted(text) for part in re.split(r"\s*\.\.\.,?\s*", q) if part]
    return [f"{q!r}: {part!r} is not in src" for q, part in parts if not is_said(part.strip())]


def test_quoted_messages_are_in_the_source() -> None:
    text = (ROOT / "docs" / "how-to" / "faq.md").read_text(encoding="utf-8")
    assert len(quoted(text)) >= 10
    assert missing(text) == []


def test_a_message_that_nobody_prints_is_noticed() -> None:
    assert missing("`the first compiled call takes seconds`")


def test_reasons_on_the_page_are_reasons() -> None:
    from ucsearch.decision.gate import Reason

    text = (ROOT / "docs" / "how-to" / "faq.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\*([a-z]+_?[a-z]+)\*(?!\*)", text.split("**HOLD")[0]))
    assert named
    assert named <= {reason.value for reason in Reason}
