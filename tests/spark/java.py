"""Java for programs that run for seconds."""

from __future__ import annotations

# Most of their time would go into optimizing what runs only once.  Spark's launcher gives this to its JVM.
QUICK_START = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
