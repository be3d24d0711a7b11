"""Tables and checks of a walk-forward suite, as specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ucsearch.lab.suites.evidence.tables import cell_check
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
    columns.append({"name": "Violations", "from": "violations", "how": "sum"})
    rates = [{"name": n, "from": source, "over": "cert_decisions", "how": "rate_family_mean"} for n, source in _RATES]
    figures = [("Margin", "cert_margin"), ("Gap", "cert_gap")]
    money = "cost" if form == "cost" else "reward"
    return [
        _table("policies", "All policies on the test windows, equal mean over families", ["policy"], columns),
        _table(
            "families", f"{money.capitalize()} by family", ["family", "policy"],
            [_mean(money.capitalize(), money), _mean("Expansions", "expansions")],
        ),
        _table(
            "certificates", "Certificates of the chosen policy by family", ["family"],
            [*rates, *(_mean(n, source) for n, source in figures),
             {"name": "Worst regret bound", "from": "cert_regret_bound", "how": "max"}], only="uc",
        ),
        *([_calibration(levels)] if levels else []),
        *([_leads(led)] if led is not None else []),
    ]  # fmt: skip


def _calibration(levels: Sequence[float]) -> dict[str, Any]:
    columns = [
        {"name": f"Within {level:g}", "from": f"inside_{level:g}", "over": "outcomes", "how": "ratio"}
        for level in levels
    ]
    columns.append({"name": "Below the median", "from": "below", "over": "outcomes", "how": "ratio"})
    columns += [_mean("CRPS", "crps"), {"name": "Outcomes", "from": "outcomes", "how": "sum"}]
    return _table("calibration", "How often outcomes lay within the forecast's intervals", ["family"], columns, "uc")


def _leads(protocol: Protocol) -> dict[str, Any]:
    clusters = clusters_of(protocol)
    columns: list[dict[str, Any]] = [
        _mean("Utility lead", "lead"),
        {"name": "Low", "from": "lead", "how": "cluster_low", "clusters": clusters},
        {"name": "High", "from": "lead", "how": "cluster_high", "clusters": clusters},
        {"name": "Weakest family", "from": "lead", "how": "family_min"},
        {"name": "Strongest family", "from": "lead", "how": "family_max"},
    ]
    title = "Utility of the chosen policy less that of the others: equal mean over families, interval by data sets"
    return _table("leads", title, ["policy"], columns)


def checks_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """No policy may break a rule."""
    names = next(row["policies"] for row in rows if row["split"] == "test")
    return [cell_check(f"violations of {name}", "policies", [name], "Violations") for name in sorted(names)]


def _mean(name: str, source: str) -> dict[str, str]:
    return {"name": name, "from": source, "how": "family_mean"}


def _table(
    name: str, title: str, group: list[str], columns: list[dict[str, Any]], only: str | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": name, "title": title, "split": "test", "group": group, "columns": columns}
    if only is not None:
        spec["where"] = {"policy": [only]}
    return spec | {"order": list(_ORDER)}
