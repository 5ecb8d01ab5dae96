"""The consumer's position calls: seek, pause, positions, and offsets of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.base.lag import lag
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.consumer.base import ConsumerBase
from barnabas.client.model import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Partition,
    Topic,
    TopicPartition,
    as_partition,
    as_partitions,
)


class Seeking(ConsumerBase):
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue reading at an offset."""
        state = self._subscription.state(as_partition(partition))
        self._out.forget(state.topic_partition)
        if isinstance(offset, OffsetAndMetadata):
            state.seek(offset.offset, offset.leader_epoch)
        else:
            if offset < 0:
                raise ValueError(f"an offset cannot be {offset}; use seek_to_beginning() or seek_to_end()")
            state.seek(offset)
        self._maintenance_at = 0.0

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record; all partitions if none is named."""
        self._reset(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read only new records; all partitions if none is named."""
        self._reset(partitions, OffsetSpec.LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Read from the first record at or after a timestamp; all partitions if none is named."""
        self._reset(partitions, timestamp_ms)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Read again from the committed offsets; all partitions if none is named."""
        for partition in partitions or tuple(self._subscription.partitions):
            state = self._subscription.state(as_partition(partition))
            self._out.forget(state.topic_partition)
            state.forget_position()
        self._maintenance_at = 0.0

    def _reset(self, partitions: tuple[TopicPartition, ...], time: int) -> None:
        for partition in partitions or tuple(self._subscription.partitions):
            state = self._subscription.state(as_partition(partition))
            self._out.forget(state.topic_partition)
            state.reset(int(time))
        self._maintenance_at = 0.0

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that poll() returns."""
        state = self._subscription.state(as_partition(partition))
        deadline = self._deadline(timeout_ms)
        if not state.has_position:

            async def attempt() -> None:
                await self._positions.find(deadline)
                if not state.has_position:
                    raise self.cluster.leaderless(state.topic_partition)

            await self.cluster.retries.until(deadline, f"finding the position in {partition}", attempt)
        return self._out.consumed_offset(state)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until resume()."""
        for partition in partitions:
            state = self._subscription.state(as_partition(partition))
            self._out.rewind(state.topic_partition)
            state.is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            state = self._subscription.state(as_partition(partition))
            state.is_paused = False
            self._fetcher.resumed(state)
        self._maintenance_at = 0.0

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that pause() has stopped."""
        return frozenset(
            partition for partition, state in self._subscription.partitions.items() if state.is_paused
        )

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end visible to this reader; None if
        unknown."""
        state = self._subscription.state(as_partition(partition))
        committed = self.settings["isolation.level"] == "read_committed"
        end = state.last_stable_offset if committed else state.high_watermark
        if end < 0 or not state.has_position:
            return None
        return lag(self._out.consumed_offset(state), state.log_start_offset, end)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the first records."""
        deadline = self._deadline(timeout_ms)
        return await self._positions.edge(as_partitions(partitions), OffsetSpec.EARLIEST, deadline)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the ends visible to this reader: the last stable offsets with
        isolation.level=read_committed."""
        deadline = self._deadline(timeout_ms)
        return await self._positions.edge(as_partitions(partitions), OffsetSpec.LATEST, deadline)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a timestamp in each partition."""
        wanted = {as_partition(partition): time for partition, time in times.items()}
        return await self._positions.by_time(wanted, self._deadline(timeout_ms))

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> tuple[Partition, ...]:
        """Return the partitions of a topic, with their leaders and replicas."""
        return (await self.cluster.describe([topic], self._deadline(timeout_ms)))[topic].partitions

    async def list_topics(self, *, timeout_ms: int | None = None) -> dict[str, Topic]:
        """Return every topic that this client may see, by name."""
        return await self.cluster.describe(None, self._deadline(timeout_ms))
