"""`barnabas produce`, `consume` and `tail`: records, positions in logs, times."""
