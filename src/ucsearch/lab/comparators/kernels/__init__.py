"""The comparators as they run compiled, see ucsearch.engine.kernels."""
