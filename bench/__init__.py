"""`make bench`: one table, side by side in one run. Figures are ratios inside this run, never absolute promises."""
