"""Closed loop beyond one decision: what can be reached, the best policy for it, what a step costs in the long run."""
