"""The invariants of replication, checked after every event on the node that ran.

- A partition has at most one leader in a leader epoch; batches with the same offset and epoch are the same.
- What a leader has exposed below its high watermark stays: every member of the ISR has it, at any time, and
  so has every later leader, at the same offset, with the same bytes.
- A replica's log is the committed one up to its own high watermark, which never passes what a leader has
  exposed; no truncation removes what is committed.  The high watermark of a leader never falls.  That of a
  follower may, to that of a new leader.
- No replica enters the ISR while its broker is fenced or shuts down (KIP-841).
- A leader exposes nothing new while its ISR is below min.insync.replicas (KIP-966).
- A broker that is fenced is elected by nobody (KAFKA-19522).

An unclean election, of a replica outside of ISR and ELR, may lose what was committed, in its partition: from
then on its leader's log counts, and what leaders of earlier epochs still do does not.  Of the followers only
the bytes are checked then, as their high watermarks may be of the lost log until they have truncated it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.base.ids import Uuid
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.metadata.image import Image
from barnabas.metadata.topics import RECOVERED, Partition
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_cluster.server import ClusterServer
from barnabas.testing.simulation.replicated_cluster.copies import Copy
from barnabas.testing.simulation.replicated_cluster.history import Batch, PartitionHistory

PartitionId = tuple[Uuid, int]


class ReplicationChecker:
    """Knows every copy of every partition."""

    def __init__(self, world: World, reference: ReferenceLog) -> None:
        self.histories: dict[PartitionId, PartitionHistory] = {}
        self._world = world
        self._reference = reference
        # Whether the topic of a name allows unclean elections.
        self.may_be_unclean: Callable[[str], bool] = lambda topic: False
        # Called with the committed batches of some topics.
        self.on_commit: dict[str, Callable[[Batch], None]] = {}
        self._servers: dict[int, ClusterServer] = {}
        self._copies: dict[tuple[int, Uuid, int], Copy] = {}
        self._hosted: dict[Hosted, Copy] = {}
        reference.listeners.append(self._check_isrs)

    def watch(self, servers: Mapping[int, ClusterServer]) -> None:
        self._servers.update(servers)

    def history(self, name: str, topic_id: Uuid, index: int) -> PartitionHistory:
        found = self.histories.get((topic_id, index))
        if found is None:
            found = self.histories[topic_id, index] = PartitionHistory(name, topic_id, index)
            found.on_commit = self.on_commit.get(name)
        return found

    def copy(self, server_id: int, topic_id: Uuid, index: int) -> Copy | None:
        return self._copies.get((server_id, topic_id, index))

    # After every event

    def check(self) -> None:
        node = self._world.active
        server = None if node is None else self._servers.get(node.id)
        if server is not None and server.broker is not None and server.node.is_up:
            replicas = server.broker.hosted_replicas
            if replicas is not None:
                for hosted in replicas.partitions.values():
                    log = hosted.log
                    if log is not None:
                        self._check_replica(server, hosted, log)

    def _check_replica(self, server: ClusterServer, hosted: Hosted, log: Log) -> None:
        copy = self._hosted.get(hosted)
        if copy is None:
            copy = self._new_copy(server, hosted)
        elif (
            copy.high_watermark == log.high_watermark
            and copy.end_offset == log.end_offset
            and copy.leader_epoch == hosted.leader_epoch
            and copy.is_leader == hosted.is_leader
            and copy.log_start_offset == log.log_start_offset
        ):
            return
        known_end = copy.end_offset
        committed = copy.checked_offset if copy.hosted is hosted else 0
        copy.read(server.node.disk, hosted, log)
        history = copy.history
        if copy.checked_offset < committed and log.log_start_offset < committed and not history.is_unclean:
            raise InvariantError(
                f"{copy.who} was truncated to {log.end_offset}; {committed} of its offsets were committed"
            )
        if log.high_watermark > max(log.end_offset, log.log_start_offset):
            raise InvariantError(
                f"{copy.who}: the high watermark {log.high_watermark} is beyond the end {log.end_offset}"
            )
        if log.end_offset < known_end:
            self._check_isr_of(history)
        if hosted.is_leader and hosted.leader_epoch >= history.unclean_epoch:
            self._check_leader(copy, hosted, log)
        elif not hosted.is_leader and not history.is_unclean:
            self._check_follower(copy, log)
        copy.high_watermark = log.high_watermark
        copy.leader_epoch = hosted.leader_epoch
        copy.is_leader = hosted.is_leader

    def _new_copy(self, server: ClusterServer, hosted: Hosted) -> Copy:
        key = server.id, hosted.topic_id, hosted.index
        copy = self._copies.get(key)
        if copy is None:
            copy = Copy(server.id, self.history(hosted.topic, hosted.topic_id, hosted.index))
            self._copies[key] = copy
        if copy.hosted is not None:
            self._hosted.pop(copy.hosted, None)
        self._hosted[hosted] = copy
        return copy

    def _check_leader(self, copy: Copy, hosted: Hosted, log: Log) -> None:
        history, epoch = copy.history, hosted.leader_epoch
        history.leads(copy.server_id, epoch)
        if history.is_disputed:
            self._rewind(copy, log)
        history.log_start_offset = max(history.log_start_offset, log.log_start_offset)
        high_watermark = log.high_watermark
        if copy.is_leader and high_watermark < copy.high_watermark:
            raise InvariantError(
                f"{copy.who}: the leader's high watermark fell from {copy.high_watermark} to {high_watermark}"
            )
        is_new = not copy.is_leader or copy.leader_epoch != epoch
        if is_new:
            self._check_new_leader(copy, hosted, log)
        if high_watermark > history.exposed.get(epoch, -1):
            # The first leader after an unclean election may bring a high watermark of what was lost.
            if high_watermark > history.end_offset and not (is_new and history.is_unclean):
                self._check_min_isr(copy, hosted)
            copy.check_committed(min(high_watermark, history.end_offset))
            history.expose(copy.batches_from(history.end_offset), high_watermark, epoch)
            copy.checked_offset = high_watermark
            self._check_isr_of(history)

    def _rewind(self, leader: Copy, log: Log) -> None:
        history = leader.history
        history.rewind_to(leader.batches, log.log_start_offset)
        for copy in self._copies.values():
            if copy.history is history:
                copy.checked_offset = min(copy.checked_offset, history.end_offset)

    def _check_new_leader(self, copy: Copy, hosted: Hosted, log: Log) -> None:
        history, epoch = copy.history, hosted.leader_epoch
        # A broker may learn late that it led an epoch that is over: later ones may have exposed more.
        exposed = history.exposed_before(epoch)
        start = hosted.leader_epoch_start
        if start is None or min(start, log.end_offset) < exposed:
            raise InvariantError(
                f"{copy.who} leads epoch {epoch} from {start} on, with offsets up to {log.end_offset};"
                f" earlier leaders have exposed {exposed}"
            )
        copy.check_committed(exposed)

    def _check_min_isr(self, copy: Copy, hosted: Hosted) -> None:
        needed = min(hosted.min_isr, len(hosted.replicas))
        if len(hosted.isr) < needed:
            raise InvariantError(
                f"{copy.who}: the high watermark advanced with the ISR {sorted(hosted.isr)}, {needed} needed"
            )

    def _check_follower(self, copy: Copy, log: Log) -> None:
        history, high_watermark = copy.history, log.high_watermark
        if high_watermark > history.end_offset:
            raise InvariantError(
                f"{copy.who}: a follower's high watermark is {high_watermark}; leaders have exposed"
                f" {history.end_offset}"
            )
        copy.check_committed(high_watermark)

    # The ISR

    def _check_isrs(self, before: Image, image: Image) -> None:
        for key, history in self.histories.items():
            state = image.partition(*key)
            known = before.partition(*key)
            if state is None or state is known:
                continue
            if known is not None and state.leader != known.leader and state.leader >= 0:
                self._check_election(history, known, state, image)
            self._check_isr(history, state.isr)
            for broker_id in set(state.isr).difference(() if known is None else known.isr):
                broker = image.brokers.get(broker_id)
                if known is not None and (broker is None or broker.fenced or broker.in_controlled_shutdown):
                    raise InvariantError(
                        f"{history.name}: n{broker_id} has joined the ISR {state.isr}: {broker}"
                    )

    def _check_election(
        self, history: PartitionHistory, before: Partition, after: Partition, image: Image
    ) -> None:
        broker = image.brokers.get(after.leader)
        if broker is None or broker.fenced:
            raise InvariantError(f"{history.name}: n{after.leader} is elected: {broker}")
        # The last known leader is elected if there is no other (KIP-966); here it has lost nothing.
        known = after.leader in (*before.isr, *before.elr, *before.last_known_elr)
        if not known and not _joins_and_leads(before, after):
            if not self.may_be_unclean(history.topic):
                raise InvariantError(f"{history.name}: n{after.leader} is elected, of {before}: {after}")
            history.elected_uncleanly(after.leader_epoch)

    def _check_isr_of(self, history: PartitionHistory) -> None:
        state = self._reference.image.partition(history.topic_id, history.index)
        if state is not None:
            self._check_isr(history, state.isr)

    def _check_isr(self, history: PartitionHistory, isr: tuple[int, ...]) -> None:
        """Whoever may be elected has what is committed, whether it runs or not."""
        if history.is_disputed:
            return
        for server_id in isr:
            copy = self._copies.get((server_id, history.topic_id, history.index))
            end_offset = 0 if copy is None else copy.end_offset
            if end_offset < history.end_offset:
                raise InvariantError(
                    f"{history.name}: n{server_id} is in the ISR {isr} with offsets up to {end_offset};"
                    f" {history.end_offset} are committed"
                )


def _joins_and_leads(before: Partition, after: Partition) -> bool:
    """Whether a replica has joined the ISR, which completed a reassignment, which made it the leader: one
    change.  A reassignment that goes on, or is cancelled, elects members of the ISR only.

    One that adds none, and replaces one that has, leaves adding_replicas as they are, as in Apache Kafka.
    """
    is_complete = (
        bool(before.adding_replicas or before.removing_replicas)
        and not after.adding_replicas
        and not after.removing_replicas
        and set(before.adding_replicas).difference(before.removing_replicas) <= set(after.replicas)
        and set(before.removing_replicas).isdisjoint(after.replicas)
    )
    return is_complete and after.leader in after.isr and after.leader_recovery_state == RECOVERED
