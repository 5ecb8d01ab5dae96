"""The jars of Spark's Kafka connector, fetched once by their Maven coordinates."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

KEPT = Path(os.environ.get("BARNABAS_VERIFY_CACHE", Path.home() / ".cache" / "barnabas-verify"))
COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_TIMEOUT_S = 600


def connector_jars() -> list[Path]:
    """The files; Maven fetches missing ones."""
    folder = KEPT / "spark-sql-kafka-4.2.0"
    jars = []
    for coordinates in COORDINATES:
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
