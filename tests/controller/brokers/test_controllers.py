"""ControllerRegistration (KIP-919)."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.records.metadata import RegisterControllerRecord
from tests.controller.lab import Lab

INCARNATION = Uuid.from_words(3, 4)


def request() -> ControllerRegistrationRequest:
    parts = ControllerRegistrationRequest
    return parts(
        controller_id=7,
        incarnation_id=INCARNATION,
        zk_migration_ready=True,
        listeners=[
            parts.Listener(name="CONTROLLER", host="host", port=9093, security_protocol=1),
            parts.Listener(name="OTHER", host="else", port=9094, security_protocol=0),
        ],
        features=[parts.Feature(name="f", min_supported_version=2, max_supported_version=5)],
    )


def test_a_controller_is_registered_with_its_listeners_and_features() -> None:
    lab = Lab()
    response = lab.send(request(), ControllerRegistrationResponse)
    assert (response.throttle_time_ms, response.error_code, response.error_message) == (0, 0, "")
    registered = lab.image.controllers[7]
    assert (registered.id, registered.incarnation_id) == (7, INCARNATION)
    assert dict(registered.features) == {"f": (2, 5)}
    record = lab.written[-1]
    assert isinstance(record, RegisterControllerRecord)
    assert not record.zk_migration_ready, "there is no ZooKeeper to migrate from"
    assert [(one.name, one.host, one.port, one.security_protocol) for one in record.end_points] == [
        ("CONTROLLER", "host", 9093, 1),
        ("OTHER", "else", 9094, 0),
    ]


def test_old_metadata_has_no_registrations() -> None:
    lab = Lab("3.6")
    with pytest.raises(KafkaError, match="too old to support controller registrations") as refused:
        lab.send(request(), ControllerRegistrationResponse)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert not lab.image.controllers
