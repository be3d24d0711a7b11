"""Storage: its record of parameters, rules, and the rules on a lattice of levels."""
