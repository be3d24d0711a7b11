"""From rows to cases to decisions to the log and back to rows, with files or without; backtests on the same files."""
