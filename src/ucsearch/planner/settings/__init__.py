"""The settings of a planning job: one TOML file, one pydantic model, errors that name file, key and allowed values.

Tables whose keys belong to a class of ours (the task, the policy, the gate, the forecaster) get their model from that
class: its fields, defaults and comments. The class itself then checks the values, so there is one place for each rule.
"""

from __future__ import annotations

from ucsearch.planner.settings.edit import edited, parse_changes
from ucsearch.planner.settings.reading import NoSettings, SettingsError, find_settings, load_settings, parse_settings
from ucsearch.planner.settings.schema import field_notes, forecaster_classes, json_schema, task_classes
from ucsearch.planner.settings.tables import (
    Actions,
    Backtest,
    Columns,
    Files,
    Forecast,
    Log,
    Run,
    Settings,
    SharedLimit,
)
from ucsearch.policies import Proof

__all__ = [
    "Actions",
    "Backtest",
    "Columns",
    "Files",
    "Forecast",
    "Log",
    "NoSettings",
    "Proof",
    "Run",
    "Settings",
    "SettingsError",
    "SharedLimit",
    "edited",
    "field_notes",
    "find_settings",
    "forecaster_classes",
    "json_schema",
    "load_settings",
    "parse_changes",
    "parse_settings",
    "task_classes",
]
