"""A reader for streams with invalid options.

Spark 4.3 stops the reader of a stream even if creating it has failed, and reports that failure instead of the
reason.  So a reader is always created, and raises the reason in its first call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit


class RefusedStream(DataSourceStreamReader):
    """Raises the reason in whatever Spark calls first."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def _refuse(self) -> NoReturn:
        raise self._reason

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()
