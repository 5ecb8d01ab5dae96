"""Which cluster a friendly command talks to: the rule, named contexts, and what listens there."""
