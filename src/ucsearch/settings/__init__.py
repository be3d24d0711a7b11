"""The settings of a planning job: one TOML file, one pydantic model, errors that name file, key and allowed values.

Tables whose keys belong to a class of ours (the task, the policy, the gate, the forecaster) get their model from that
class: its fields, defaults and comments. The class itself then checks the values, so there is one place for each rule.
"""

from __future__ import annotations

from ucsearch.effort import Proof
from ucsearch.settings.models import field_notes, forecaster_classes, json_schema, task_classes
from ucsearch.settings.reading import SettingsError, load_settings, parse_settings
from ucsearch.settings.tables import Actions, Backtest, Columns, Forecast, Log, Run, Settings, SharedLimit

__all__ = [
    "Actions",
    "Backtest",
    "Columns",
    "Forecast",
    "Log",
    "Proof",
    "Run",
    "Settings",
    "SettingsError",
    "SharedLimit",
    "field_notes",
    "forecaster_classes",
    "json_schema",
    "load_settings",
    "parse_settings",
    "task_classes",
]
