"""Learned comparators: tabular fitted Q iteration, a conservative Q-network in NumPy, and (as an extra) DQN and PPO."""

from ucsearch.learned.base import Evidence, QTable, Transitions, collect
from ucsearch.learned.cql import ConservativeQ, train_cql
from ucsearch.learned.fqi import train_fqi

__all__ = ["ConservativeQ", "Evidence", "QTable", "Transitions", "collect", "train_cql", "train_fqi"]
