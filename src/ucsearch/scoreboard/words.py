"""The scoreboard as text for a terminal."""

from __future__ import annotations

from ucsearch.scoreboard.board import Board, Row

__all__ = ["board_text"]

_HEAD = (
    "policy", "reward", "vs reference [95 %]", "regret", "CVaR20", "drawdown", "violations", "expansions", "us",
)  # fmt: skip
_FAMILIES = {"search": "Search", "comparator": "Comparators", "classic": "Practice", "learned": "Learned"}


def board_text(board: Board) -> str:
    """A table by family of policies, and what its columns mean."""
    p, b = board.problem, board.budget
    cells = {row.name: _cells(row) for row in board.rows}
    widths = [max(len(_HEAD[i]), *(len(c[i]) for c in cells.values())) for i in range(len(_HEAD))]
    lines = [
        f"{board.title}: {len(set(p.series))} series, {len(board.used)} episodes of {p.decisions} decisions",
        f"depth {b.depth}, risk {b.risk:g}, mode {b.mode}; budget {b.expansions} expansions a decision, or {b.samples} "
        "sampled plans",
        "",
        _line(_HEAD, widths),
    ]
    for family, title in _FAMILIES.items():
        group = [row for row in board.rows if row.family == family]
        if group:
            lines += ["", title, *(_line(cells[row.name], widths) for row in group)]
    lines += [
        "",
        f"reward, regret (to the best that was possible in hindsight) and drawdown: means of an episode; CVaR20: mean "
        f"of the worst fifth of all steps; + better, - worse than {board.reference}, series as the unit",
    ]
    if len(board.used) < len(p):
        met = ", ".join(f"{r.name} {r.dead_ends}" for r in board.rows if r.dead_ends)
        lines.append(f"{len(p) - len(board.used)} episodes left out for all: a dead end was met ({met})")
    if board.proved < len(board.used):
        open_ones = len(board.used) - board.proved
        lines.append(f"in {open_ones} episodes hindsight is an upper bound, so regret is at most what is shown")
    fell = ", ".join(f"{r.name} {r.fallbacks:.3g}" for r in board.rows if r.fallbacks > 0.0)
    if fell:
        lines.append(f"decisions of an episode made by the fallback: {fell}")
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    if row.versus is None:
        versus = "reference"
    else:
        sign = {1: "+", -1: "-", 0: " "}[row.versus.side]
        ends = f"[{row.versus.low:+.3g}, {row.versus.high:+.3g}] {sign}" if row.versus.is_known else "(no interval)"
        versus = f"{row.versus.mean:+.3g} {ends}"
    return [
        row.name, _figure(row.reward), versus, _figure(row.regret), _figure(row.cvar20), _figure(row.drawdown),
        str(row.violations), f"{row.expansions:,.0f}", f"{row.micros:,.0f}",
    ]  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.2f}" if abs(value) >= 1.0 else f"{value:.3g}"


def _line(cells: list[str] | tuple[str, ...], widths: list[int]) -> str:
    first = f"{cells[0]:<{widths[0]}}"
    return "  ".join([first, *(f"{c:>{w}}" for c, w in zip(cells[1:], widths[1:], strict=True))]).rstrip()
