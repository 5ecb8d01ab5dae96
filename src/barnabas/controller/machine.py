"""The controller as a record machine: requests in, decisions out, records applied.

Maps requests to decisions and provides the periodic tasks.  The decisions themselves belong in one module per
area; log and clock belong in the broker.

`decide` changes no durable state; only `apply` does, with records that are in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.activation import activation_records
from barnabas.controller.brokers import brokers, controlled_shutdown, controllers, directories, producer_ids
from barnabas.controller.configs import configs, features, quotas
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication import alter_partition, alter_partition_reassignments, elections
from barnabas.controller.security import acls, scram, tokens
from barnabas.controller.state import ControllerOptions, ControllerState
from barnabas.controller.topics import deletions, partitions, topics
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.random import Random

R = TypeVar("R", bound=Message)
Decide = Callable[[ControllerState, Any, Context], Decision]

_DECISIONS: dict[type[Message], Decide] = {
    AllocateProducerIdsRequest: producer_ids.allocate_producer_ids,
    AlterClientQuotasRequest: quotas.alter_quotas,
    AlterConfigsRequest: configs.alter_configs,
    AlterPartitionRequest: alter_partition.alter_partition,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments.alter_reassignments,
    AlterUserScramCredentialsRequest: scram.alter_scram_credentials,
    AssignReplicasToDirsRequest: directories.assign_replicas,
    BrokerHeartbeatRequest: brokers.heartbeat,
    BrokerRegistrationRequest: brokers.register_broker,
    ControlledShutdownRequest: controlled_shutdown.controlled_shutdown,
    ControllerRegistrationRequest: controllers.register_controller,
    CreateAclsRequest: acls.create_acls,
    CreateDelegationTokenRequest: tokens.create_token,
    CreatePartitionsRequest: partitions.create_partitions,
    CreateTopicsRequest: topics.create_topics,
    DeleteAclsRequest: acls.delete_acls,
    DeleteTopicsRequest: deletions.delete_topics,
    ElectLeadersRequest: elections.elect_leaders,
    ExpireDelegationTokenRequest: tokens.expire_token,
    IncrementalAlterConfigsRequest: configs.incremental_alter_configs,
    ListPartitionReassignmentsRequest: alter_partition_reassignments.list_reassignments,
    RenewDelegationTokenRequest: tokens.renew_token,
    UnregisterBrokerRequest: brokers.unregister_broker,
    UpdateFeaturesRequest: features.update_features,
}


class Controller:
    """Makes decisions while its node leads the quorum; always applies the records."""

    def __init__(self, options: ControllerOptions, random: Random) -> None:
        self.state = ControllerState(options, random)

    @property
    def image(self) -> Image:
        """The image including all records in the log, committed or not."""
        return self.state.image

    def activate(
        self,
        bootstrap: Sequence[Message],
        now_ns: int,
        *,
        in_transaction: bool,
        process_start_offset: int = 0,
    ) -> list[Message]:
        """Called when this node becomes the leader; returns the initial records.

        Every live broker gets a full session.  This node's own broker does not if it registered before
        `process_start_offset`, the log end at process start: that registration belongs to a previous process.
        """
        state = self.state
        own = state.image.brokers.get(state.options.node_id)
        stopped = own.id if own is not None and own.epoch < process_start_offset else None
        state.heartbeats.activate(state.image.brokers.values(), now_ns, stopped_broker=stopped)
        return activation_records(state, bootstrap, in_transaction=in_transaction)

    def deactivate(self, committed: Image) -> None:
        """Called when leadership is lost: revert to the committed image and discard the soft state."""
        self.state.load(committed)

    def decide(self, request: Message, context: Context) -> Decision:
        """Returns the records and the reply; raises KafkaError if the whole request is rejected."""
        decide = _DECISIONS.get(type(request))
        if decide is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{request.schema.name} is not a controller request"
            )
        return decide(self.state, request, context)

    def prepare(self, records: Sequence[Message], last_offset: int, epoch: int, timestamp_ms: int) -> Delta:
        """Returns the delta of these records, the last of which will get this offset.

        Raises InconsistentRecordError if they contradict the image.  Does not change the state.
        """
        return self.state.prepare(records, last_offset, epoch, timestamp_ms)

    def apply(self, delta: Delta) -> None:
        """Apply the most recently prepared delta, whose records are now in the log."""
        self.state.apply(delta)

    # Periodic tasks

    def fence_stale(self, now_ns: int) -> list[Message]:
        """Fence one broker with an expired session; call again after applying the records, until empty."""
        return brokers.maybe_fence_stale_broker(self.state, now_ns)

    def continue_shutdowns(self) -> list[Message]:
        """Move a batch of partitions of a broker in controlled shutdown; call again until empty."""
        return brokers.continue_shutdowns(self.state)

    def remove_over_tokens(self, now_ms: int) -> list[Message]:
        """Remove a batch of delegation tokens that are over; call again until empty."""
        return tokens.remove_over(self.state, now_ms)

    def balance_leaders(self) -> list[Message]:
        return elections.balance_leaders(self.state)

    def elect_unclean_leaders(self) -> list[Message]:
        return elections.elect_unclean_leaders(self.state)
