"""Tables and checks of a walk-forward suite, as specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.gates.promotion import clusters_of
from ucsearch.lab.suites.protocol.comparison import Protocol

__all__ = ["checks_of", "tables_of"]

_ORDER = (
    "uc", "cem", "mppi", "risk-random", "cem-wide", "mppi-wide", "risk-random-wide", "rand-shoot", "exact-dp",
    "exact-reward-only", "beam", "delay-greedy", "risk-greedy", "risk-greedy-matched", "greedy", "base-stock", "s-S",
    "rolling-quantile", "fqi", "cql", "dqn", "ppo", "hindsight",
)  # fmt: skip
_RATES = (
    ("Certificate", "cert_passed"), ("Risk-active", "cert_risk_active"), ("Before protection", "cert_search_pass"),
    ("Paper's rule", "cert_paper_pass"), ("Released", "cert_released"), ("Search-active", "cert_search_active"),
)  # fmt: skip


def tables_of(
    rows: Sequence[dict[str, Any]], form: str, levels: Sequence[float] = (), led: Protocol | None = None
) -> list[dict[str, Any]]:
    """`levels`: also how well forecasts covered; `led`: also utility over everybody, by the data sets of a protocol."""
    test = [row for row in rows if row["split"] == "test"]
    metrics = set(test[0]["policies"]["uc"])
    columns = [_mean("Cost", "cost")] if form == "cost" else [_mean("Reward", "reward")]
    columns += [_mean("Utility", "utility"), _mean("Regret", "regret"), _mean("CVaR20", "cvar20")]
    columns += [_mean("Drawdown", "drawdown")]
    for name, source in (("Fill rate", "fill_rate"), ("Exposure", "exposure"), ("Turnover", "turnover")):
        if source in metrics:
            columns.append(_mean(name, source))
    columns += [_mean("Expansions", "expansions"), _mean("Proof nodes", "oracle_nodes")]
    columns += [_mean("Activity nodes", "activity_nodes")]
    columns.append(column("Violations", "violations", "sum"))
    rates = [column(n, source, "rate_family_mean", "cert_decisions") for n, source in _RATES]
    figures = [("Margin", "cert_margin"), ("Gap", "cert_gap")]
    money = "cost" if form == "cost" else "reward"
    return [
        table("policies", "All policies on the test windows, equal mean over families", ["policy"], columns, _ORDER),
        table(
            "families", f"{money.capitalize()} by family", ["family", "policy"],
            [_mean(money.capitalize(), money), _mean("Expansions", "expansions")], _ORDER,
        ),
        table(
            "certificates", "Certificates of the chosen policy by family", ["family"],
            [*rates, *(_mean(n, source) for n, source in figures),
             column("Worst regret bound", "cert_regret_bound", "max")], _ORDER, only=["uc"],
        ),
        *([_calibration(levels)] if levels else []),
        *([_leads(led)] if led is not None else []),
    ]  # fmt: skip


def _calibration(levels: Sequence[float]) -> dict[str, Any]:
    columns = [column(f"Within {level:g}", f"inside_{level:g}", "ratio", "outcomes") for level in levels]
    columns.append(column("Below the median", "below", "ratio", "outcomes"))
    columns += [_mean("CRPS", "crps"), column("Outcomes", "outcomes", "sum")]
    title = "How often outcomes lay within the forecast's intervals"
    return table("calibration", title, ["family"], columns, _ORDER, only=["uc"])


def _leads(protocol: Protocol) -> dict[str, Any]:
    clusters = clusters_of(protocol)
    columns: list[dict[str, Any]] = [
        _mean("Utility lead", "lead"),
        {**column("Low", "lead", "cluster_low"), "clusters": clusters},
        {**column("High", "lead", "cluster_high"), "clusters": clusters},
        column("Weakest family", "lead", "family_min"),
        column("Strongest family", "lead", "family_max"),
    ]
    title = "Utility of the chosen policy less that of the others: equal mean over families, interval by data sets"
    return table("leads", title, ["policy"], columns, _ORDER)


def checks_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """No policy may break a rule."""
    names = next(row["policies"] for row in rows if row["split"] == "test")
    return [cell_check(f"violations of {name}", "policies", [name], "Violations") for name in sorted(names)]


def _mean(name: str, source: str) -> dict[str, Any]:
    return column(name, source, "family_mean")
