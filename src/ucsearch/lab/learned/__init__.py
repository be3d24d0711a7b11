"""Learned comparators: tabular fitted Q iteration, a conservative Q-network in NumPy, networks of DQN and PPO."""

from ucsearch.lab.learned.base import Evidence, QTable, Transitions, collect
from ucsearch.lab.learned.boundary import LearnedPolicy, forecast_features, load_learned, train_offline
from ucsearch.lab.learned.cql import ConservativeQ, train_cql
from ucsearch.lab.learned.fqi import train_fqi
from ucsearch.lab.learned.lost_sales import NetworkOrders, load_lost_sales
from ucsearch.lab.learned.network import NetworkPolicy, load_policy, policy_names

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
