"""Endpoints: decisions, what people and outcomes change, plans and the log, health."""
