"""Pieces of a page: tables, tiles, lists and the frame around all of it. Everything that goes in is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.report.words import CLASSES, embedded, sentence
from ucsearch.report.style import CSS
from ucsearch.report.text import column_texts, esc, is_number, joined, number, short

__all__ = [
    "bullets",
    "fields",
    "folded",
    "frame",
    "mark",
    "paragraph",
    "records",
    "section",
    "table",
    "tag",
    "tiles",
    "tone",
]

# Nothing may be fetched and nothing may run, whatever a name in the evidence contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def frame(title: str, body: Iterable[str], *, data: Any, footer: str) -> str:
    """A whole document with the JSON it was made from."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{esc(_POLICY)}">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{esc(title)}</title>",
            f"<style>{CSS}</style>",
            "</head>",
            "<body>",
            "<main>",
            *(part for part in body if part),
            "</main>",
            f"<footer><p>{esc(footer)}</p></footer>",
            f'<script type="application/json" id="evidence">{embedded(data)}</script>',
            "</body>",
            "</html>",
            "",
        ]
    )


def section(key: str, title: str, parts: Iterable[str]) -> str:
    """A section with a heading; nothing when it has no content."""
    inner = "\n".join(p for p in parts if p)
    name = esc(key)
    if not inner:
        return ""
    return f'<section id="{name}" aria-labelledby="{name}-h">\n<h2 id="{name}-h">{esc(title)}</h2>\n{inner}\n</section>'


def paragraph(text: str, css: str = "") -> str:
    return f'<p class="{css}">{esc(text)}</p>' if css else f"<p>{esc(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    inner = "".join(f"<li>{esc(i)}</li>" for i in items)
    return f"<ul>{inner}</ul>" if inner else ""


def folded(summary: str, inner: str) -> str:
    """Content that is one click away; printed as a whole."""
    return f"<details><summary>{esc(summary)}</summary>{inner}</details>" if inner else ""


def tone(claim: object) -> str:
    """The class of a verdict as a style class."""
    return str(claim) if claim in CLASSES else "unknown"


def tag(claim: object) -> str:
    name = CLASSES[str(claim)][0] if claim in CLASSES else "No verdict"
    return f'<span class="tag {tone(claim)}">{esc(name)}</span>'


def mark(passed: object) -> str:
    """Whether a row holds, in a sign and a word: colour alone says nothing in print."""
    return '<span class="yes">✓ holds</span>' if passed is True else '<span class="no">✗ fails</span>'


def tiles(values: Mapping[str, Any]) -> str:
    inner = "".join(f"<div><dt>{esc(sentence(k))}</dt><dd>{esc(_plain(v))}</dd></div>" for k, v in values.items())
    return f'<dl class="tiles">{inner}</dl>' if inner else ""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    hows: Sequence[str] = (),
    ours: Iterable[int] = (),
    long: Iterable[int] = (),
    raw: Iterable[int] = (),
    stack: bool = False,
) -> str:
    """Columns of numbers stand right with equal decimals. `raw` columns hold HTML; `ours` are rows to set off.

    `stack`: on a phone every row becomes a card, for tables whose cells are sentences.
    """
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in heads]
    marked, wide, safe = set(ours), set(long), set(raw)
    texts, css = [], []
    for i, column in enumerate(columns):
        numeric = any(is_number(v) for v in column) and all(v is None or is_number(v) for v in column)
        css.append("n" if numeric else "long" if i in wide else "")
        how = hows[i] if i < len(hows) else ""
        if i in safe:
            texts.append([str(v) for v in column])
        else:
            texts.append([esc(t) for t in (column_texts(column, how) if numeric else [_plain(v) for v in column])])
    top = "".join(f'<th scope="col"{_css(css[i])}>{esc(h)}</th>' for i, h in enumerate(heads))

    def role(name: str) -> str:
        # Cards are no longer laid out as a table, and browsers then forget that they are one.
        return f' role="{name}"' if stack else ""

    lines = []
    for r in range(len(rows)):
        first = texts[0][r]
        cells = [
            f'<th scope="row"{_css("" if 0 in safe or len(first) <= 24 else "long")}{role("rowheader")}>{first}</th>'
        ]
        for i in range(1, len(heads)):
            label = f' data-head="{esc(heads[i])}"' if stack else ""
            cells.append(f"<td{_css(css[i])}{label}{role('cell')}>{texts[i][r]}</td>")
        lines.append(f"<tr{_css('ours' if r in marked else '')}{role('row')}>{''.join(cells)}</tr>")
    name = f"<caption>{esc(caption)}</caption>" if caption else ""
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    # Focusable, so that the keyboard can scroll it.
    label = esc(caption or joined(heads))
    kind = ' class="stack" role="table"' if stack else ""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table{kind}>{name}{body}</table></div>'


def _css(name: str) -> str:
    return f' class="{name}"' if name else ""


def records(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Dictionaries as a table; columns in order of first appearance."""
    keys = list(dict.fromkeys(str(k) for r in rows for k in r))
    # What a row is about stands before its figures.
    keys.sort(key=lambda k: any(is_number(r.get(k)) for r in rows))
    return table(caption, [sentence(k) for k in keys], [[r.get(k) for k in keys] for r in rows]) if keys else ""


def fields(caption: str, value: Mapping[str, Any]) -> str:
    """Nested settings as rows of two columns."""
    rows = list(_flat(value, ""))
    return table(caption, ["Setting", "Value"], [[k, _plain(v)] for k, v in rows], long=[1]) if rows else ""


def _flat(value: Mapping[str, Any], before: str) -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{before}{key}.")
        else:
            yield f"{before}{key}", item


def _plain(value: Any) -> str:
    """One cell: numbers for people, lists with commas, long ones cut."""
    if isinstance(value, (list, tuple)):
        return short(", ".join(_plain(v) for v in value), 400) if value else "none"
    if isinstance(value, Mapping):
        return short("; ".join(f"{k} {_plain(v)}" for k, v in value.items()), 400) if value else "none"
    return number(value)
