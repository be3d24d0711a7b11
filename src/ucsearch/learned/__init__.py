"""Learned comparators: tabular fitted Q iteration, a conservative Q-network in NumPy, and (as an extra) DQN and PPO."""

from ucsearch.learned.base import Evidence, QTable, Transitions, collect
from ucsearch.learned.boundary import LearnedPolicy, forecast_features, load_learned, train_offline
from ucsearch.learned.cql import ConservativeQ, train_cql
from ucsearch.learned.fqi import train_fqi
from ucsearch.learned.lost_sales import NetworkOrders, load_lost_sales
from ucsearch.learned.network import NetworkPolicy, load_policy, policy_names

__all__ = [
    "ConservativeQ",
    "Evidence",
    "LearnedPolicy",
    "NetworkOrders",
    "NetworkPolicy",
    "QTable",
    "Transitions",
    "collect",
    "forecast_features",
    "load_learned",
    "load_lost_sales",
    "load_policy",
    "policy_names",
    "train_cql",
    "train_fqi",
    "train_offline",
]
