"""The scoreboard behind `ucsearch compare`: every policy on the same windows, at matched compute."""
