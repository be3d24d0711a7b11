"""Inventory classics: formulas, and exact long-run costs of lost-sales policies.

Independent of the search core: nothing here imports it.
"""

from ucsearch.replay.classics.adaptive import forecast_level, order_up_to, rolling_quantile_level
from ucsearch.replay.classics.backorder import ReorderSolution, backorder_base_stock, optimise_s_s, s_s_cost
from ucsearch.replay.classics.demand import Demand, geometric, poisson
from ucsearch.replay.classics.instances import Instance, load_instance, zipkin_instances
from ucsearch.replay.classics.lost_sales import AverageCost, LostSales, OptimalPolicy, OrderPolicy, average_cost, solve
from ucsearch.replay.classics.newsvendor import (
    Newsvendor,
    critical_ratio,
    newsvendor_discrete,
    newsvendor_discrete_cost,
    newsvendor_normal,
    newsvendor_normal_cost,
)
from ucsearch.replay.classics.optimise import (
    Best,
    constant_order_cost,
    optimise_base_stock,
    optimise_capped_base_stock,
    optimise_constant_order,
    optimise_reorder_point,
)
from ucsearch.replay.classics.policies import (
    BaseStock,
    CappedBaseStock,
    ConstantOrder,
    MyopicOne,
    MyopicTwo,
    ReorderPoint,
    VectorBaseStock,
)

__all__ = [
    "AverageCost",
    "BaseStock",
    "Best",
    "CappedBaseStock",
    "ConstantOrder",
    "Demand",
    "Instance",
    "LostSales",
    "MyopicOne",
    "MyopicTwo",
    "Newsvendor",
    "OptimalPolicy",
    "OrderPolicy",
    "ReorderPoint",
    "ReorderSolution",
    "VectorBaseStock",
    "average_cost",
    "backorder_base_stock",
    "constant_order_cost",
    "critical_ratio",
    "forecast_level",
    "geometric",
    "load_instance",
    "newsvendor_discrete",
    "newsvendor_discrete_cost",
    "newsvendor_normal",
    "newsvendor_normal_cost",
    "optimise_base_stock",
    "optimise_capped_base_stock",
    "optimise_constant_order",
    "optimise_reorder_point",
    "optimise_s_s",
    "order_up_to",
    "poisson",
    "rolling_quantile_level",
    "s_s_cost",
    "solve",
    "zipkin_instances",
]
