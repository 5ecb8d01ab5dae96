"""What must hold of the znodes at any time, and of what controllers tell the brokers.

Follows the ensemble's log, transaction by transaction.
"""

from __future__ import annotations

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import decode_controller_epoch
from barnabas.broker.modes.zookeeper.znodes.topics import (
    PartitionState,
    TopicAssignment,
    decode_state,
    decode_topic,
)
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble
from barnabas.runtime.simulated.ensemble.znodes import ChangedZnode, CreatedZnode, DeletedZnode
from barnabas.runtime.simulated.world import InvariantError

CHROOT = "/kafka"
# Of a partition whose topic is being deleted, in UpdateMetadata.
LEADER_DURING_DELETE = -2
Told = tuple[str, int, int, int, tuple[int, ...]]


class Witness:
    """Checks the log of an ensemble."""

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble
        self._read = 0
        self.controller_epoch = 0
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[tuple[str, int], PartitionState] = {}
        # Everything that was ever stored, as a broker may be told.
        self._stored: set[Told] = set()
        self._marked: set[str] = set()
        # The node of each controller epoch.
        self._won: dict[int, int] = {}

    def check(self) -> None:
        """Look at the transactions since the last call."""
        log = self._ensemble.log
        while self._read < len(log):
            for change in log[self._read].changes:
                match change:
                    case CreatedZnode() | ChangedZnode():
                        self._written(change.path.removeprefix(CHROOT), change.data)
                    case DeletedZnode(path):
                        self._deleted(path.removeprefix(CHROOT))
            self._read += 1

    def _written(self, path: str, data: bytes | None) -> None:
        if path == paths.CONTROLLER_EPOCH:
            epoch = decode_controller_epoch(path, data)
            if epoch < self.controller_epoch:
                raise InvariantError(f"the controller epoch falls from {self.controller_epoch} to {epoch}")
            self.controller_epoch = epoch
        elif path.startswith(f"{paths.DELETE_TOPICS}/"):
            self._marked.add(path.rpartition("/")[2])
        elif path.startswith(f"{paths.TOPICS}/"):
            parts = path.removeprefix(f"{paths.TOPICS}/").split("/")
            if len(parts) == 1:
                self.topics[parts[0]] = decode_topic(path, data)
            elif parts[-1] == "state":
                self._state_written(parts[0], int(parts[2]), decode_state(path, data))

    def _deleted(self, path: str) -> None:
        parts = path.removeprefix(f"{paths.TOPICS}/").split("/")
        if path.startswith(f"{paths.TOPICS}/") and len(parts) == 1:
            if parts[0] not in self._marked:
                raise InvariantError(f"topic {parts[0]} was removed, and nobody had asked for that")
            del self.topics[parts[0]]
        elif path.startswith(f"{paths.TOPICS}/") and parts[-1] == "state":
            del self.states[parts[0], int(parts[2])]

    def _state_written(self, name: str, number: int, state: PartitionState) -> None:
        key = (name, number)
        before = self.states.get(key)
        self.states[key] = state
        what = f"{name}-{number} from {before} to {state}"
        replicas = self.topics[name].partitions[number].replicas
        if state.controller_epoch != self.controller_epoch:
            raise InvariantError(f"written by a controller that is deposed: {what}")
        if not state.isr or not {*state.isr} <= {*replicas}:
            raise InvariantError(f"the ISR is not among the replicas {replicas}: {what}")
        if state.leader >= 0 and state.leader not in state.isr:
            raise InvariantError(f"the leader is not in sync: {what}")
        if before is not None:
            self._check_change(before, state, what)
        self._stored.add((name, number, state.leader_epoch, state.leader, state.isr))

    def _check_change(self, before: PartitionState, state: PartitionState, what: str) -> None:
        if not before.leader_epoch <= state.leader_epoch <= before.leader_epoch + 1:
            raise InvariantError(f"the leader epoch leaps: {what}")
        if state.leader != before.leader and state.leader_epoch == before.leader_epoch:
            raise InvariantError(f"another leader in the same epoch: {what}")
        if state.leader not in (before.leader, -1) and state.leader not in before.isr:
            raise InvariantError(f"an unclean election: {what}")
        added = set(state.isr) - set(before.isr)
        if added and (state.leader != before.leader or state.leader_epoch != before.leader_epoch):
            raise InvariantError(f"replicas join the ISR without their leader: {what}")

    # What controllers do

    def won(self, node_id: int, epoch: int) -> None:
        if self._won.setdefault(epoch, node_id) != node_id:
            raise InvariantError(f"nodes {self._won[epoch]} and {node_id} both have controller epoch {epoch}")

    def told(self, request: Message) -> None:
        """A broker may only be told what is stored."""
        self.check()
        if not isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
            return
        for topic in request.topic_states:
            for state in topic.partition_states:
                told = (
                    topic.topic_name,
                    state.partition_index,
                    state.leader_epoch,
                    state.leader,
                    tuple(state.isr),
                )
                if state.leader != LEADER_DURING_DELETE and told not in self._stored:
                    raise InvariantError(f"a broker is told what is not stored: {told}")
