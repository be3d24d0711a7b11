"""Inventory classics: formulas, and exact long-run costs of lost-sales policies.

Independent of the search core: nothing here imports it.
"""

from ucsearch.inventory.adaptive import forecast_level, order_up_to, rolling_quantile_level
from ucsearch.inventory.backorder import ReorderSolution, backorder_base_stock, optimise_s_s, s_s_cost
from ucsearch.inventory.classics import (
    BaseStock,
    CappedBaseStock,
    ConstantOrder,
    MyopicOne,
    MyopicTwo,
    ReorderPoint,
    VectorBaseStock,
)
from ucsearch.inventory.demand import Demand, geometric, poisson
from ucsearch.inventory.instances import Instance, load_instance, zipkin_instances
from ucsearch.inventory.lost_sales import (
    AverageCost,
    LostSales,
    OptimalPolicy,
    OrderPolicy,
    average_cost,
    solve,
)
from ucsearch.inventory.newsvendor import (
    Newsvendor,
    critical_ratio,
    newsvendor_discrete,
    newsvendor_discrete_cost,
    newsvendor_normal,
    newsvendor_normal_cost,
)
from ucsearch.inventory.optimise import (
    Best,
    constant_order_cost,
    optimise_base_stock,
    optimise_capped_base_stock,
    optimise_constant_order,
    optimise_reorder_point,
)
from ucsearch.inventory.table import lost_sales_table

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
    "lost_sales_table",
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
