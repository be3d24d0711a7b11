"""What a search's uncertainty term does: where it changes decisions, and whether that can be foretold."""
