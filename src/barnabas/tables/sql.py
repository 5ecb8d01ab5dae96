"""SQL over topics, by DuckDB: `SELECT count(*) FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR`.

A topic is read through Arrow while DuckDB runs, from the offsets and times that the query can want.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.consumer.fetch.arrow import pyarrow
from barnabas.tables.pruning import Bounds, Scan, scans_of
from barnabas.tables.reading import TEXT, Topics, schema

if TYPE_CHECKING:
    import duckdb

ADVICE = "SQL needs DuckDB and pyarrow: pip install 'barnabas[tables]'"
ROWS_AT_ONCE = 1_000


class QueryError(ValueError):
    """The query is wrong; the message is DuckDB's."""


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a query, read as they are taken."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def query(sql: str, topics: Topics) -> Result:
    """Run a query; raises QueryError."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(ADVICE) from error
    pyarrow()
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        names = duckdb.get_table_names(sql) & topics.names()
        for name, scans in _scans(connection, sql, names).items():
            _register(connection, name, scans, topics)
        running = connection.execute(sql)
        columns = tuple(column[0] for column in running.description or ())
    except duckdb.Error as error:
        connection.close()
        raise QueryError(_said(error, topics)) from error
    return Result(columns, _rows(connection, running))


def _scans(connection: duckdb.DuckDBPyConnection, sql: str, names: set[str]) -> dict[str, list[Scan]]:
    """What the query reads of each topic, from a plan over empty tables."""
    found: dict[str, list[Scan]] = {name: [] for name in names}
    if not names:
        return found
    planning = connection.cursor()
    # It would find out that the tables are empty, and plan to read nothing.
    planning.execute("SET disabled_optimizers = 'statistics_propagation'")
    planning.register("columns_of_topics", schema().empty_table())
    for name in names:
        planning.execute(f"CREATE TEMP TABLE {_quoted(name)} AS SELECT * FROM columns_of_topics")  # quoted  # nosec B608
    plans = planning.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
    planning.close()
    for _, plan in plans:
        for scan in scans_of(json.loads(plan)):
            if scan.table in found:
                found[scan.table].append(scan)
    return found


def _register(connection: duckdb.DuckDBPyConnection, name: str, scans: list[Scan], topics: Topics) -> None:
    # A plan that names no scan may still read the topic, such as that of another statement than SELECT.
    with_text = not scans or any(TEXT in scan.columns or not scan.columns for scan in scans)
    bounds = scans[0].bounds if len(scans) == 1 else Bounds()
    batches = topics.read(name, bounds, with_text=with_text)
    reader = pyarrow().RecordBatchReader.from_batches(schema(), batches)
    # What is scanned once is read as it comes; for several scans it is kept.
    connection.register(name, reader if len(scans) == 1 else reader.read_all())


def _rows(connection: duckdb.DuckDBPyConnection, running: Any) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        while rows := running.fetchmany(ROWS_AT_ONCE):
            yield from rows
    except duckdb.Error as error:
        raise QueryError(str(error).splitlines()[0]) from error
    finally:
        connection.close()


def _said(error: Exception, topics: Topics) -> str:
    said = str(error).splitlines()[0]
    if "does not exist" in said:
        said += f" (there is {', '.join(sorted(topics.names())) or 'no topic'}; a name with . or - in quotes)"
    return said


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
