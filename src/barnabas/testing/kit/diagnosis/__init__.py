"""Why something does not happen, and what a failed test tells."""
