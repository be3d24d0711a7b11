"""One limit over many series: who gets how much of a truck, a budget or a transformer, and how good that is."""
