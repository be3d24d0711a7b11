"""Where older records find their tasks (`objects`). Everything else is in `ucsearch.planner`."""
