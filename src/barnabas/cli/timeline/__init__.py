"""`barnabas timeline`: what happened in a cluster, and why."""
