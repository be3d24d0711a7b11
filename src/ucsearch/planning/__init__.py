"""From a planner's files to decisions: what the commands `new`, `decide`, `backtest` and `explain` do.

Nothing is imported here, so that asking for help stays cheap.
"""
