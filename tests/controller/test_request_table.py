"""The controller's responses and records compared with Apache Kafka's, request by request."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.metadata.snapshot import record_version
from barnabas.protocol.record_frame import read_metadata_record, write_metadata_record
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.protocol.schema import Message
from tests.controller.lab import Lab
from tests.controller.request_table import CASES, record_form, response_form


def test_responses_and_records_match_apache_kafka(data: Path) -> None:
    # M-E1
    lab = Lab()
    lab.join()
    expected = json.loads((data / "controller" / "answers.json").read_text("utf-8"))
    assert len(expected) == len(CASES)
    for case, response in zip(CASES, expected, strict=True):
        sent = lab.send(case.request, Message, case.version)
        assert response_form(case, sent) == response, case.request
        # The broker that forwards the request adds its own.
        assert getattr(sent, "throttle_time_ms", 0) == 0, case.request
    written = [_form(lab, record) for record in lab.written if not isinstance(record, RegisterBrokerRecord)]
    assert written == json.loads((data / "controller" / "records.json").read_text("utf-8"))


def _form(lab: Lab, record: Message) -> object:
    """As decoded from the bytes that would be written."""
    version = record_version(record, lab.image.metadata_version)
    return record_form(*read_metadata_record(write_metadata_record(record, version)))
