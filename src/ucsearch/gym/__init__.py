"""Tasks as Gymnasium environments, for learned comparators. Needs the `gym` extra."""

from ucsearch.gym.env import TaskEnv, TaskVectorEnv

__all__ = ["TaskEnv", "TaskVectorEnv"]
