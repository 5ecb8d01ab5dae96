"""Histories of clients, and a checker that finds anomalies in them.

A history is what clients of a cluster saw, in the order in which they saw it: what producers sent, what was
acknowledged, how transactions ended, what consumers polled, and a final read of every partition.  The checker
knows nothing about the cluster: it works for any that is compatible with Apache Kafka, and for a simulated
one.  No IO, no clocks.

- `events.py`: the events of a history.
- `jsonl.py`: events as lines of JSON; `python -m barnabas.testing.histories FILE` checks a file.
- `checker.py`: `check(events)` returns a `Report`.
- `anomalies.py`: the kinds of anomaly, and what each means.
"""
