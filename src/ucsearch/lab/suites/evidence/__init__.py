"""The evidence folder: rows, tables, sample of decisions, manifest; and the ledger of looks."""
