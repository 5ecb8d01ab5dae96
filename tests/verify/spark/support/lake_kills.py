"""A streaming query into a Delta or Iceberg table whose driver dies at a chosen moment; run as a program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.spark.pipeline.lake_sinks import batch_writer
from barnabas.tables import lakes

# A new file of rows appears at `file`: the commit is under way.
MOMENTS = ("before", "file", "committed", "written", "compacting")
# Not the first batch: something is to be there already.
HIT = 2
NAME = "lines"


def lake_of(kind: str, folder: Path) -> Any:
    if kind == "delta":
        return lakes.DeltaTable(str(folder / "table"), compact_every=2)
    return lakes.IcebergTable(NAME, str(folder / "table"), compact_every=2)


class Killer:
    """Kills this process and its Java at the second time that its moment comes in a query's life."""

    def __init__(self, folder: Path, moment: str, victims: list[int]) -> None:
        self._folder = folder
        self._moment = moment
        self._victims = victims

    def at(self, moment: str) -> None:
        if moment != self._moment:
            return
        hits = self._folder / "hits"
        with hits.open("a") as out:
            out.write(".")
        if hits.stat().st_size == HIT:
            (self._folder / "killed").write_text(moment, "utf-8")
            for victim in (*self._victims, os.getpid()):
                os.kill(victim, signal.SIGKILL)

    def around(self, moment: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after which the moment comes."""

        def called(*args: Any, **options: Any) -> Any:
            made = function(*args, **options)
            self.at(moment)
            return made

        return called


class KillingLake:
    """A table whose writing is watched."""

    def __init__(self, lake: Any, folder: Path, killer: Killer) -> None:
        self._lake, self._folder, self._killer = lake, folder, killer

    def write(self, rows: Any, query: str, batch: int) -> bool:
        self._killer.at("before")
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(self._files(), is_over))
        watch.start()
        made: bool = self._lake.write(rows, query, batch)
        is_over.set()
        watch.join()
        self._killer.at("written")
        return made

    def _files(self) -> int:
        return sum(1 for _ in self._folder.rglob("*.parquet"))

    def _watch(self, before: int, is_over: threading.Event) -> None:
        while not is_over.is_set():
            if self._files() > before:
                self._killer.at("file")
                return


def watch_commits(kind: str, killer: Killer) -> None:
    """`committed`: the commit is in the table; `compacting`: files were rewritten, and that not committed."""
    if kind == "delta":
        import deltalake

        deltalake.write_deltalake = killer.around("committed", deltalake.write_deltalake)
        optimize = deltalake.DeltaTable.optimize.fget  # type: ignore[attr-defined]
        deltalake.DeltaTable.optimize = property(killer.around("compacting", optimize))  # type: ignore[assignment]
    else:
        import pyiceberg.io.pyarrow as written
        from pyiceberg.table import Transaction

        commit = Transaction.commit_transaction
        Transaction.commit_transaction = killer.around("committed", commit)  # type: ignore[method-assign]
        rewrite = written._dataframe_to_data_files

        def rewritten(*args: Any, **options: Any) -> Any:
            files = list(rewrite(*args, **options))
            if "write_uuid" not in options:
                killer.at("compacting")
            return iter(files)

        written._dataframe_to_data_files = rewritten


def main(kind: str, place: str, tasks: str, moment: str, victims: str) -> None:
    """Write all lines under `place`/in to a table, one file a batch."""
    from barnabas.spark import session

    folder = Path(place)
    spark = session("kills", "local[2]")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    killer = Killer(folder, moment, [gateway.proc.pid])
    watch_commits(kind, killer)
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{place}/in").repartition(int(tasks))
    stream = rows.selectExpr("CAST(value AS INT) AS n").writeStream
    writer: Any = batch_writer(KillingLake(lake_of(kind, folder), folder / "table", killer))
    query = stream.foreachBatch(writer).option("checkpointLocation", f"{place}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
