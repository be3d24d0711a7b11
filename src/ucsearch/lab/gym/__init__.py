"""Tasks as Gymnasium environments, for learned comparators. Needs the `gym` extra.

The built-in tasks are registered: `gymnasium.make("ucsearch/LeadTimeInventory-v0")`.
"""

from ucsearch.lab.gym.env import TaskEnv, TaskVectorEnv
from ucsearch.lab.gym.registered import make_env, make_vector_env, register_tasks

__all__ = ["TaskEnv", "TaskVectorEnv", "make_env", "make_vector_env", "register_tasks"]

register_tasks(namespace="ucsearch/")
