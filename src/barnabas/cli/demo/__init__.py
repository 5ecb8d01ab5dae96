"""`barnabas demo`: services write logs, a collector follows them, Spark counts them and raises alerts."""
