"""The jars of Spark's Kafka connector, fetched once by their Maven coordinates; those of Delta and
Iceberg, with the newest Spark that they are made for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

KEPT = Path(os.environ.get("BARNABAS_VERIFY_CACHE", Path.home() / ".cache" / "barnabas-verify"))
COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
# There are none for newer ones: their classes do not fit together.
LAKE_SPARK = "4.1.0"
LAKES = {
    "delta": ("io.delta:delta-spark_4.1_2.13:4.1.0", "io.delta:delta-storage:4.1.0"),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",),
}
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_TIMEOUT_S = 600


def connector_jars() -> list[Path]:
    """The files; Maven fetches missing ones."""
    return _jars(KEPT / "spark-sql-kafka-4.2.0", COORDINATES)


def lake_jars(kind: str) -> list[Path]:
    return _jars(KEPT / kind, LAKES[kind])


def lake_python() -> Path:
    """Python with the Spark that those jars are for, in an environment of its own."""
    folder = KEPT / f"spark-{LAKE_SPARK}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={LAKE_SPARK}"]
        subprocess.run(install, check=True, timeout=FETCH_TIMEOUT_S)
        (folder / "ready").touch()
    return python


def _jars(folder: Path, wanted: Sequence[str]) -> list[Path]:
    jars = []
    for coordinates in wanted:
        _, name, version = coordinates.split(":")
        jar = folder / f"{name}-{version}.jar"
        if not jar.exists():
            folder.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                ["mvn", "-q", "-B", COPY_GOAL, f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"],
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"Maven could not fetch {coordinates}: {done.stdout[-2000:]}")
        jars.append(jar)
    return jars
