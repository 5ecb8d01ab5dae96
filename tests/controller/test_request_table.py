"""The controller's answers and records against Apache Kafka's, request by request."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.metadata.snapshot import record_version
from barnabas.protocol.record_frame import read_metadata_record, write_metadata_record
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.protocol.schema import Message
from tests.controller.lab import Lab
from tests.controller.request_table import CASES, answer_form, record_form


def test_answers_and_records_are_apache_kafkas(data: Path) -> None:
    # M-E1
    lab = Lab()
    lab.join()
    expected = json.loads((data / "controller" / "answers.json").read_text("utf-8"))
    assert len(expected) == len(CASES)
    for case, answer in zip(CASES, expected, strict=True):
        assert answer_form(case, lab.ask(case.request, Message, case.version)) == answer, case.request
    written = [_form(lab, record) for record in lab.written if not isinstance(record, RegisterBrokerRecord)]
    assert written == json.loads((data / "controller" / "records.json").read_text("utf-8"))


def _form(lab: Lab, record: Message) -> object:
    """As it is read back from the bytes that would be written."""
    version = record_version(record, lab.image.metadata_version)
    return record_form(*read_metadata_record(write_metadata_record(record, version)))
