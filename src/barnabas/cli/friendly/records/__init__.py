"""`barnabas produce`, `consume` and `tail`: records, places in logs, times."""
