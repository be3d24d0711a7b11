"""The bound of members mode: perfect information, penalised and reweighted."""
