"""IncrementalAlterConfigs in the controller."""

from __future__ import annotations

import pytest

from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.lab import Lab

SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(*changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2,
        resource_name="t",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=op, value=value)
            for name, op, value in changes
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


@pytest.mark.trap
def test_incremental_changes_set_delete_append_and_subtract() -> None:
    """Trap 16: IncrementalAlterConfigs with SET, DELETE, APPEND, SUBTRACT."""
    lab = Lab()
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)

    def options() -> dict[str, str]:
        return dict(lab.image.configs_of(2, "t"))

    lab.send(alter(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")), Message)
    assert options() == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    lab.send(alter(("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")), Message)
    assert options() == {"cleanup.policy": "compact"}
    lab.send(alter(("cleanup.policy", APPEND, "compact,delete")), Message)
    assert options() == {"cleanup.policy": "compact,delete"}
    lab.send(alter(("cleanup.policy", DELETE, None)), Message)
    assert options() == {}


def test_config_values_have_a_maximum_length() -> None:
    lab = Lab()
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)
    reply = lab.send(alter(("retention.ms", SET, "9" * 40_000)), IncrementalAlterConfigsResponse)
    assert reply.responses[0].error_message == (
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    )
