"""Decisions by the hundred thousand: columnar parts beside the log, one root over all rows, one entry in the chain."""
