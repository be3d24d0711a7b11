"""Pages for people: look, override, pause, re-arm. Rendered here, without scripts, for any browser."""
