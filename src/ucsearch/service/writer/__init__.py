"""Everything that writes the log: decisions, and what people and agents report or order."""
