"""Log aggregation, the founding use: lines of many services become counts, joins, alerts and tables.

Reading order: `generator` and `formats` (what the lines are like), `queries` (what is asked of them),
`alerts` (state with hysteresis), `pipeline` (sources, queries and sinks put together), `truth` (the same
answers by other means), `view` and `report` (to look at).
"""
