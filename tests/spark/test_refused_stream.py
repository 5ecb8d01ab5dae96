"""What a stream is refused for is what the user reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from barnabas.spark.pipeline.faults import reason
from tests.spark.topics import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"}


@pytest.mark.parametrize(
    ("form", "options", "expected"),
    [
        ("barnabas", {**OPTIONS, "maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
        ("barnabas-log", {"subscribe": "orders", "path": "data"}, "barnabas-log reads batches only"),
    ],
)
def test_the_reason_is_raised_and_not_a_later_failure(
    spark: SparkSession, tmp_path: Path, form: str, options: dict[str, str], expected: str
) -> None:
    rows = spark.readStream.format(form).options(**options).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException) as caught:
        finished(writer.trigger(availableNow=True).start)
    assert expected in reason(caught.value)
    assert "UnboundLocalError" not in str(caught.value)
