"""LeadTimeInventory: its record of parameters, rules, bound and order sizes."""
