"""The text of metadata records."""

from __future__ import annotations

import re

from barnabas.base.errors import KafkaError
from barnabas.batch.records import Record
from barnabas.protocol.json_form import json_text, to_json
from barnabas.protocol.record_frame import read_metadata_record

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class MetadataDecoder:
    """Records as JSON; they have no keys.  A record that cannot be decoded is reported in its place."""

    def texts(self, record: Record) -> tuple[str | None, str | None]:
        try:
            message, version = read_metadata_record(record.value or b"")
            kind = record_type(type(message).__name__)
            return None, json_text({"type": kind, "version": version, "data": to_json(message, version)})
        except KafkaError as error:
            return None, f"Error at {record.offset}, skipping. {error.message}"


def record_type(class_name: str) -> str:
    """`FEATURE_LEVEL_RECORD` of `FeatureLevelRecord`."""
    return _WORD_START.sub("_", class_name).upper()
