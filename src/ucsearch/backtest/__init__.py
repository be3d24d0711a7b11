"""What policies would have done on past values: one walk, one roster of opponents, metrics and intervals."""
