"""Topics as tables: SQL over topics and data folders, and tables in the formats of data lakes.

DuckDB, deltalake and pyiceberg are extras, so nothing here imports them before they are needed.
"""
