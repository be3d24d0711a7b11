"""The scoreboard behind `ucsearch compare`: every policy on the same episodes, at matched compute."""
