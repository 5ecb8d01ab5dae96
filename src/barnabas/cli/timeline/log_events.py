"""The timeline of a running cluster, from its metadata log."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from barnabas.batch.control import read_quorum_message
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.quorum_reader import LogBatch, open_reader
from barnabas.metadata.loader import MetadataBatch
from barnabas.metadata.metadata_transaction import Replay
from barnabas.metadata.timeline import Event, Kind, record_events
from barnabas.protocol.records.control import LeaderChangeMessage


def events_of_log(parser: ArgumentParser, options: Namespace) -> Iterator[Event]:
    """The events since the latest snapshot: what it contains has no history."""
    replay = Replay()
    for batch in open_reader(parser, options).read():
        if batch.view.is_control:
            yield from _elections(batch)
            continue
        records, timestamp_ms = batch.records(), batch.view.max_timestamp
        if not batch.is_snapshot:
            content = MetadataBatch(batch.last_offset, batch.epoch, timestamp_ms, records, 0)
            yield from record_events(replay.delta.image, content)
        replay.take(records, batch.last_offset, batch.epoch, timestamp_ms)


def _elections(batch: LogBatch) -> Iterator[Event]:
    for record in batch.view.records():
        message = read_quorum_message(record)
        if isinstance(message, LeaderChangeMessage) and not batch.is_snapshot:
            voters = ", ".join(str(voter.voter_id) for voter in message.granting_voters)
            yield Event(
                batch.view.max_timestamp,
                Kind.LEADER_ELECTED,
                f"controller {message.leader_id}",
                f"epoch {batch.epoch}",
                f"it has the votes of {voters}" if voters else "a majority of the voters voted for it",
                batch.epoch,
            )
