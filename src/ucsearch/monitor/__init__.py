"""Watching a forecaster while it is used: evidence that its spread or level is wrong, and when to stop releasing."""

from ucsearch.monitor.bets import Watch, rank_of, tolerance_of
from ucsearch.monitor.fold import Monitor, Settings, Status, Trip
from ucsearch.monitor.streams import Stream

__all__ = ["Monitor", "Settings", "Status", "Stream", "Trip", "Watch", "rank_of", "tolerance_of"]
