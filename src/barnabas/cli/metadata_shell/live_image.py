"""The image of a running quorum, as of its high watermark."""

from __future__ import annotations

from argparse import Namespace

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.quorum_reader import QuorumReader, open_reader
from barnabas.metadata.image import Image
from barnabas.metadata.metadata_transaction import Replay


class LiveImage:
    """Reads the log of the quorum's leader; each `load` continues where the last one ended."""

    def __init__(self, parser: ArgumentParser, options: Namespace) -> None:
        self._parser = parser
        self._options = options
        self._reader: QuorumReader | None = None
        self._replay = Replay()

    def load(self) -> Image:
        """The metadata that is committed now."""
        if self._reader is not None:
            try:
                return self._continue(self._reader)
            except CommandError:
                pass  # Another controller leads now: it may be the one to continue with, from the start.
        self._replay = Replay()
        self._reader = open_reader(self._parser, self._options)
        return self._continue(self._reader)

    def _continue(self, reader: QuorumReader) -> Image:
        in_snapshot = False
        for batch in reader.read():
            if batch.is_snapshot and not in_snapshot:
                self._replay = Replay()  # It replaces everything that was read so far.
            in_snapshot = batch.is_snapshot
            if not batch.view.is_control:
                timestamp_ms = batch.view.max_timestamp
                self._replay.take(batch.records(), batch.last_offset, batch.epoch, timestamp_ms)
        return self._replay.delta.image
