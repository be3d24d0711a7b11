"""Who may do what: tokens, roles and scopes."""
