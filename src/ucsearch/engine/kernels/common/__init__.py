"""What the searches share: a task's rules and forecast as they ask them, scoring, states, spreads, endings."""
