"""A Spark session that works immediately: Java found, our formats registered, settings for one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark import home, masters
from barnabas.spark.internals import STOPPED, check_version, let_updates_end
from barnabas.spark.java import cache_folder, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# The number of cores of a cluster is unknown here.
CLUSTER_SHUFFLE_PARTITIONS = 16
_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"


def session(
    app: str = "barnabas", master: str = "local[*]", *, output: str | None = None, **conf: object
) -> SparkSession:
    """Return a session with the formats `barnabas` and `barnabas-log`; the running one if there is one.

    `conf` has Spark's own names: `session(**{"spark.driver.memory": "4g"})`; None removes a default.
    `output`: a file for everything that Spark and its workers print, to keep the terminal clean.
    """
    try:
        from pyspark import __version__
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("barnabas.spark needs PySpark: pip install 'barnabas[spark]'") from error
    from barnabas.spark.data_source import register

    # A running session accepts runtime options only, neither name nor memory.
    running = SparkSession.getActiveSession()
    if running is None:
        check_version(__version__)
    master = _text(conf.get("spark.master") or master)
    if running is None:
        masters.check(master)
        masters.find(master)
        _prepare_environment(master)
    default = {} if running is not None else defaults(app, master, is_traced=output is not None)
    builder = SparkSession.builder
    for name, value in {**default, **conf}.items():
        if value is not None:
            builder = builder.config(name, _text(value))
    with _printing_to(output), _refused_by(master):
        spark = builder.getOrCreate()
    if running is None:
        spark.sparkContext.setLogLevel("ERROR")
        let_updates_end(spark)
    register(spark)
    return spark


@contextmanager
def _refused_by(master: str) -> Iterator[None]:
    """Explain an address that is listening but accepts no application of ours."""
    from py4j.protocol import Py4JError
    from pyspark import __version__

    try:
        yield
    except Py4JError as error:
        if not master.startswith(masters.STANDALONE) or STOPPED not in str(error):
            raise
        raise masters.MasterError(
            f"{master}: the server there has not accepted the application; give the port of a Spark master "
            f"{__version__} (default 7077), not that of its web pages, and see its log"
        ) from error


@contextmanager
def _printing_to(path: str | None) -> Iterator[None]:
    """Processes that are started meanwhile keep this file as their output; ours is restored."""
    if path is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for descriptor in (1, 2):
            os.dup2(file, descriptor)
        yield
    finally:
        for descriptor, ours in zip((1, 2), kept, strict=True):
            os.dup2(ours, descriptor)
            os.close(ours)
        os.close(file)


def defaults(app: str, master: str, *, is_traced: bool = False) -> dict[str, str]:
    """Return the default settings of a session; `is_traced`: Java's stack traces are logged."""
    cores = local_cores(master)
    log = "full" if is_traced else "short"
    chosen = {
        "spark.app.name": app,
        "spark.master": master,
        # Windows of logs have the same meaning on every machine.
        "spark.sql.session.timeZone": "UTC",
        # State that exceeds the memory of one machine.
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        # Each is a task and a state store in every batch: 200, Spark's default, costs seconds on one machine.
        "spark.sql.shuffle.partitions": str(cores or CLUSTER_SHUFFLE_PARTITIONS),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS} -Dbarnabas.log={log}"
        ),
    }
    if cores:
        # No look-up of the machine's own name, and no port that others can reach.
        chosen["spark.driver.host"] = chosen["spark.driver.bindAddress"] = "127.0.0.1"
        # Machines of a cluster may lack barnabas.
        chosen["spark.python.daemon.module"] = "barnabas.spark.worker_daemon"
    return chosen


def local_cores(master: str) -> int:
    """Return how many tasks run at once on a local master; 0 for a cluster."""
    found = masters.LOCAL.fullmatch(master)
    if found is None:
        return 0
    if found.group(1) == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(found.group(1) or 1)


def _prepare_environment(master: str) -> None:
    """Set what Spark reads from the environment of the process that starts it."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Not any `python3` on the path: the one that has barnabas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    cores = local_cores(master)
    home.choose(cache_folder(), is_local=bool(cores))
    if cores:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
