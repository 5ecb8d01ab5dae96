"""A machine without Java: the one that PyPI brings carries Spark, state stores and Python workers included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.verify.spark.support.hidden_java import without_java

PATIENCE_S = 600
PROGRAM = """
import os, shutil, sys
assert shutil.which("java") is None
from pyspark.sql.functions import udf
from barnabas.spark import session
spark = session("bare", "local[1]")
assert "barnabas" in os.environ["JAVA_HOME"], os.environ["JAVA_HOME"]
folder = sys.argv[1]
double = udf(lambda number: number * 2, "long")
spark.range(10).select(double("id").alias("id")).write.parquet(folder + "/numbers")
stream = spark.readStream.schema("id long").parquet(folder + "/numbers").groupBy("id").count()
query = (
    stream.writeStream.outputMode("complete").format("memory").queryName("counted")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
assert sorted(row.id for row in spark.table("counted").collect()) == list(range(0, 20, 2))
print("all of it works")
"""


def test_spark_runs_on_the_java_of_pypi(tmp_path: Path) -> None:
    # M-I: `pip install` alone is enough.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=without_java(tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "all of it works" in done.stdout
