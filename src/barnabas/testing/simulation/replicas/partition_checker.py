"""The invariants of replication, checked after every event on the node that ran, and on every commit.

- A leader epoch has at most one leader.  Only it writes batches of that epoch, each once; every other replica
  has them at the same offset, behind the same batch (so logs with a batch in common are equal before it).
- What a leader has exposed below its high watermark stays: all members of the committed ISR, and of the ELR,
  have it, at any time, and so has every later leader.
- A new leader that was elected with all of that tells no client a latest offset below it (KIP-207).
- A replica's log is the exposed one up to its own high watermark, whichever its role is.
- The high watermark of a leader never falls, and rests while its ISR is below min.insync.replicas (KIP-966).
- Who joins an ISR is alive, neither fenced nor stopping (KIP-841), and has all before the epoch of its
  leader (KAFKA-7128).  Who is elected is alive, and of the ISR or the ELR, or the last known leader.
- No follower truncates its log below its own high watermark (KAFKA-14704).
- Nobody's log starts later than DeleteRecords asked for.

An unclean election may lose what was exposed, of its partition: from then on its leader's log counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.metadata.image import Image
from barnabas.metadata.topics import NO_LEADER, Partition
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.storage.log.log_reader import LATEST_TIMESTAMP
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.replicas.partition_history import PartitionHistory
from barnabas.testing.simulation.replicas.stored_log import Batch, StoredLog

if TYPE_CHECKING:
    from barnabas.testing.simulation.replicas.memory_log import MemoryLog
    from barnabas.testing.simulation.replicas.metadata_log import MetadataLog
    from barnabas.testing.simulation.replicas.replica_server import Machine, ReplicaServer

CONSUMER = -1
# What is compared: role, epoch, high watermark, log end, log start.
_Seen = tuple[bool, int, int, int, int]


class PartitionChecker:
    """Knows every copy of every partition."""

    def __init__(self, world: World, machines: Mapping[int, Machine], *, may_be_unclean: bool) -> None:
        self.histories: dict[TopicPartition, PartitionHistory] = {}
        self.log: MetadataLog | None = None
        self._world = world
        self._machines = machines
        self._may_be_unclean = may_be_unclean
        self._servers: dict[int, ReplicaServer] = {}
        self._seen: dict[Hosted, _Seen] = {}
        world.check_always(self._check)

    def history(self, name: TopicPartition) -> PartitionHistory:
        found = self.histories.get(name)
        if found is None:
            found = self.histories[name] = PartitionHistory(name)
        return found

    def started(self, server: ReplicaServer) -> None:
        self._servers[server.process.id] = server
        self._seen = {
            hosted: seen for hosted, seen in self._seen.items() if hosted.rules.broker_id != server.process.id
        }

    def fail(self, text: str) -> InvariantError:
        """The error to raise; code under test may catch it."""
        violation = InvariantError(text)
        if self._world.violation is None:
            self._world.violation = violation
        return violation

    # After every event

    def _check(self) -> None:
        node = self._world.active
        server = None if node is None or not node.is_up else self._servers.get(node.id)
        if server is None:
            return
        seen = self._seen
        for hosted in server.replicas.partitions.values():
            log = hosted.log
            if log is not None:
                now = (
                    hosted.is_leader,
                    hosted.leader_epoch,
                    log.high_watermark,
                    log.end_offset,
                    log.log_start_offset,
                )
                before = seen.get(hosted)
                if now != before:
                    self._check_replica(hosted, before, now)
                    seen[hosted] = now

    def _check_replica(self, hosted: Hosted, before: _Seen | None, now: _Seen) -> None:
        history = self.history(hosted.name)
        is_leader, epoch, high_watermark, end_offset, log_start = now
        broker_id = hosted.rules.broker_id
        if high_watermark > max(end_offset, log_start):
            raise self.fail(f"{hosted!r} on n{broker_id}: {high_watermark} is exposed of {end_offset}")
        if log_start > history.deleted_to:
            raise self.fail(
                f"{hosted!r} on n{broker_id}: the log starts at {log_start};"
                f" nobody has deleted beyond {history.deleted_to}"
            )
        if before is not None and end_offset < before[3]:
            self._check_members(history)
        if epoch < history.unclean_epoch:
            return
        stored = self._stored(broker_id, hosted.name)
        if is_leader:
            self._check_leader(history, hosted, stored, before, now)
        elif not history.unclean_epoch:
            if high_watermark > history.exposed_end:
                raise self.fail(
                    f"{hosted!r} on n{broker_id}: its high watermark is {high_watermark};"
                    f" leaders have exposed {history.exposed_end}"
                )
            if not history.agrees(stored, high_watermark, log_start):
                raise self.fail(
                    f"{hosted!r} on n{broker_id}: below its high watermark {high_watermark} is something"
                    " that no leader has exposed"
                )

    def _stored(self, broker_id: int, name: TopicPartition) -> StoredLog:
        return self._machines[broker_id].logs[name][1]

    def _check_leader(
        self, history: PartitionHistory, hosted: Hosted, stored: StoredLog, before: _Seen | None, now: _Seen
    ) -> None:
        _, epoch, high_watermark, end_offset, log_start = now
        broker_id = hosted.rules.broker_id
        if not history.leads(broker_id, epoch):
            raise self.fail(f"{hosted!r}: n{broker_id} leads, and so does n{history.leaders[epoch]}")
        if before is not None and before[:2] == now[:2] and high_watermark < before[2]:
            raise self.fail(f"{hosted!r} on n{broker_id}: the high watermark fell from {before[2]}")
        is_new = before is None or before[:2] != now[:2]
        if is_new:
            if history.is_disputed and epoch >= history.unclean_epoch:
                history.rewind_to(stored, end_offset, epoch)
            exposed = history.exposed_before(epoch)
            start = hosted.leader_epoch_start
            if start is None or min(start, end_offset) < exposed:
                raise self.fail(
                    f"{hosted!r} on n{broker_id} leads from {start} on; {exposed} were exposed before"
                )
            if not history.agrees(stored, exposed, log_start):
                raise self.fail(f"{hosted!r} on n{broker_id} leads without what was exposed before {exposed}")
        if high_watermark > history.exposed.get(epoch, -1):
            if high_watermark > history.exposed_end:
                # The first leader after an unclean election may bring a high watermark of what was lost.
                if not (is_new and history.unclean_epoch):
                    self._check_min_isr(hosted)
                history.expose(stored, high_watermark)
            history.exposed[epoch] = high_watermark
            if not history.agrees(stored, min(high_watermark, history.exposed_end), log_start):
                raise self.fail(f"{hosted!r} on n{broker_id} exposes something else than was exposed before")
            self._check_members(history)

    def _check_min_isr(self, hosted: Hosted) -> None:
        needed = min(hosted.min_isr, len(hosted.replicas))
        if len(hosted.isr) < needed:
            raise self.fail(
                f"{hosted!r}: the high watermark advanced with the ISR {sorted(hosted.isr)}, {needed} needed"
            )

    # What is committed as metadata

    def committed(self, before: Image, image: Image) -> None:
        for broker_id, machine in self._machines.items():
            known, broker = before.brokers.get(broker_id), image.brokers.get(broker_id)
            if broker is not None and (known is None or known.epoch != broker.epoch):
                # From now on the controller knows of what it has lost.
                for _, stored in machine.logs.values():
                    stored.lost_from = None
        if before.topics is image.topics:
            return
        for topic in image.topics.values():
            for index, after in topic.partitions.items():
                known_state = before.partition(topic.id, index)
                if after is not known_state:
                    history = self.history(TopicPartition(topic.name, index))
                    self._changed(history, known_state, after, image)

    def _changed(
        self, history: PartitionHistory, before: Partition | None, after: Partition, image: Image
    ) -> None:
        if before is not None:
            if after.leader not in (before.leader, NO_LEADER):
                self._check_election(history, before, after, image)
            self._check_last_known(history, before, after)
            for broker_id in set(after.isr).difference(before.isr):
                self._check_joining(history, broker_id, before, after, image)
        self._check_members(history, after)

    def _check_election(
        self, history: PartitionHistory, before: Partition, after: Partition, image: Image
    ) -> None:
        broker = image.brokers.get(after.leader)
        if broker is None or broker.fenced:
            raise self.fail(f"{history.name}: n{after.leader} is elected: {broker}")
        candidates = {*before.isr, *before.elr, *(before.last_known_elr if not before.isr else ())}
        if after.leader in candidates or _completes(before, after):
            return
        if not self._may_be_unclean and not history.is_forsaken:
            raise self.fail(f"{history.name}: n{after.leader} is elected, of {before}")
        history.elected_uncleanly(after.leader_epoch)

    def _check_last_known(self, history: PartitionHistory, before: Partition, after: Partition) -> None:
        """Somebody is left to lead, unless min.insync.replicas was set, be it to the same value, which clears
        the ELR without a new partition epoch (KIP-966)."""
        is_forsaken = after.leader == NO_LEADER and not (after.isr or after.elr or after.last_known_elr)
        is_cleared = after.partition_epoch == before.partition_epoch
        if is_forsaken and not history.is_forsaken and not is_cleared:
            raise self.fail(f"{history.name}: nobody may lead after {before}")
        history.is_forsaken = is_forsaken

    def _check_joining(
        self, history: PartitionHistory, broker_id: int, before: Partition, after: Partition, image: Image
    ) -> None:
        if broker_id == after.leader and broker_id != before.leader:
            return  # it is elected
        if after.isr == (broker_id,) and broker_id not in before.isr and self._may_be_unclean:
            # A reassignment is cancelled, and none of the original replicas is in sync.
            history.elected_uncleanly(after.leader_epoch)
            return
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            raise self.fail(f"{history.name}: n{broker_id} has joined the ISR {after.isr}: {broker}")
        leader = self._servers.get(before.leader)
        hosted = None if leader is None else leader.replicas.partitions.get(history.name)
        if hosted is None or hosted.leader_epoch != before.leader_epoch or not hosted.is_leader:
            return
        if (hosted.leader_epoch_start or 0) <= history.deleted_to:
            return  # a log that is truncated within a batch has files that end before it does
        logs = self._machines[broker_id].logs
        end_offset = logs[history.name][1].end_offset if history.name in logs else 0
        if end_offset < (hosted.leader_epoch_start or 0) and not self._has_lost(broker_id, history.name):
            raise self.fail(
                f"{history.name}: n{broker_id} joins the ISR of epoch {hosted.leader_epoch}, which starts at"
                f" {hosted.leader_epoch_start}, with {end_offset}"
            )

    def _has_lost(self, broker_id: int, name: TopicPartition) -> bool:
        known = self._machines[broker_id].logs.get(name)
        return known is not None and known[1].lost_from is not None

    def _check_members(self, history: PartitionHistory, state: Partition | None = None) -> None:
        """Whoever may be elected has what is exposed, whether it runs or not."""
        if history.is_disputed:
            return
        if state is None:
            assert self.log is not None, "it is set before anything runs"
            topic = self.log.image.topic_named(history.name.topic)
            state = None if topic is None else topic.partitions.get(history.name.partition)
            if state is None:
                return
        exposed = history.exposed_end
        if exposed <= history.deleted_to:
            return
        for broker_id in (*state.isr, *state.elr):
            known = self._machines[broker_id].logs.get(history.name)
            if known is None:
                raise self.fail(f"{history.name}: n{broker_id} of {state} has no log")
            stored = known[1]
            if stored.lost_from is not None:
                continue
            if stored.end_offset < exposed or not history.agrees(stored, exposed, stored.start_offset):
                raise self.fail(
                    f"{history.name}: n{broker_id} has offsets up to {stored.end_offset}, and {exposed} are"
                    f" exposed: {state}"
                )

    # What nodes report

    def appended(self, broker_id: int, name: TopicPartition, before: Batch | None, batch: Batch) -> None:
        problem = self.history(name).appended(broker_id, before, batch)
        if problem is not None:
            raise self.fail(f"{name} on n{broker_id}: {problem}")

    def truncated(self, broker_id: int, log: MemoryLog, offset: int) -> None:
        """A follower removes what it has from this offset on."""
        history = self.history(log.key)
        if offset < log.high_watermark > history.deleted_to and not history.unclean_epoch:
            raise self.fail(f"{log!r} on n{broker_id} is truncated to {offset}")

    def may_delete(self, hosted: Hosted, offset: int) -> None:
        """A leader is asked to delete records."""
        log = hosted.log
        if log is not None and hosted.is_leader:
            wanted = log.high_watermark if offset == -1 else offset
            if wanted <= log.high_watermark:
                history = self.history(hosted.name)
                history.deleted_to = max(history.deleted_to, wanted)

    def deleted(self, hosted: Hosted) -> None:
        """What DeleteRecords tells its client: that is deleted everywhere."""
        assert hosted.log is not None, "it has just deleted"
        if hosted.low_watermark > hosted.log.log_start_offset:
            raise self.fail(f"{hosted!r} has not deleted all before {hosted.low_watermark}")

    def told_offsets(
        self, server: ReplicaServer, request: ListOffsetsRequest, response: ListOffsetsResponse
    ) -> None:
        """What a consumer is told the latest offset is (KIP-207)."""
        for topic, asked in zip(response.topics, request.topics, strict=True):
            for result, wanted in zip(topic.partitions, asked.partitions, strict=True):
                name = TopicPartition(topic.name, result.partition_index)
                if (
                    request.replica_id == CONSUMER
                    and wanted.timestamp == LATEST_TIMESTAMP
                    and result.error_code == ErrorCode.NONE
                ):
                    hosted, history = server.replicas.partitions[name], self.history(name)
                    before = history.exposed_before(hosted.leader_epoch)
                    is_clean = hosted.leader_epoch >= history.unclean_epoch and not history.is_disputed
                    if result.offset < before and is_clean:
                        raise self.fail(
                            f"{hosted!r}: the latest offset is said to be {result.offset}; {before} were"
                            " exposed by earlier leaders"
                        )

    def acknowledged(self, name: TopicPartition, base_offset: int, value: int) -> None:
        """A producer has got acks=all."""
        history = self.history(name)
        if not history.unclean_epoch:
            problem = history.acknowledge(base_offset, value)
            if problem is not None:
                raise self.fail(f"{name}: {problem}")


def _completes(before: Partition, after: Partition) -> bool:
    """Whether a replica has joined the ISR, which completed a reassignment, and leads: all in one change."""
    was_moving = bool(before.adding_replicas or before.removing_replicas)
    is_moving = bool(after.adding_replicas or after.removing_replicas)
    adding = set(before.adding_replicas).difference(before.removing_replicas)
    is_complete = was_moving and not is_moving and adding <= set(after.replicas)
    return is_complete and after.leader in after.isr and set(after.replicas) <= set(after.isr)
