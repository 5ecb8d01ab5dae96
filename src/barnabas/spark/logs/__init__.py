"""Log aggregation, the flagship use: lines of many services become counts, joins, alerts and tables.

Reading order: `generator` and `formats` (the lines), `queries`, `alerts` (state with hysteresis), `pipeline`
(sources, queries and sinks combined), `truth` (the same results computed differently), `view` and `report`.
"""
