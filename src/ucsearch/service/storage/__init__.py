"""The log on disk: opening, checking, copying, keeping."""
