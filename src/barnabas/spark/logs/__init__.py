"""Log aggregation, the flagship use: lines of many services become counts, joins, alerts and tables.

Reading order: `queries`, `alerts` (state with hysteresis), `learning` (templates), `pipeline` (sources,
queries and sinks combined), `view` and `report`.  How a line is read belongs in `logs`, made-up services in
`testing.logs`.
"""
