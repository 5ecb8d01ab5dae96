"""`barnabas dump-log`: print the contents of log files, as Apache Kafka's kafka-dump-log does.

The options and the output are those of Apache Kafka 4.1; `--kafka-release 3.9` prints as 3.9 does where the
two differ (the transaction log and leader changes).  Unlike that tool, the exit code is 1 if a fault
is found, and files after a damaged one are still printed.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser, KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError, code_for, describe, one_line

if TYPE_CHECKING:
    from barnabas.cli.dump_log.decoders import Decoder

PROGRAM = "barnabas dump-log"
KAFKA_RELEASES = ("3.9", "4.1")
MAX_INT = 2**31 - 1
DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024

# Flags and help of the decoders of internal topics, in order of precedence.
DECODERS = {
    "offsets": "read records as those of __consumer_offsets",
    "transaction-log": "read records as those of __transaction_state",
    "cluster-metadata": "read records as those of the metadata log",
    "remote-log-metadata": "read records as those of __remote_log_metadata (tiered storage)",
    "share-group-state": "read records as those of __share_group_state",
}


def make_parser() -> ArgumentParser:
    parser = KafkaParser(
        PROGRAM,
        "Print the contents of log files: .log, .checkpoint, .index, .timeindex, .txnindex, .snapshot.",
        "The exit code is 1 if a file is damaged.",
    )
    add = parser.add_argument
    add("--files", required=True, metavar="FILE1,FILE2,...", help="the files to print")
    add(
        "--print-data-log",
        action="store_true",
        help="print keys and values of records; implied by every decoder",
    )
    add("--deep-iteration", action="store_true", help="print each record, not only each batch")
    add("--skip-record-metadata", action="store_true", help="omit offset, timestamp and sizes of records")
    for name, summary in DECODERS.items():
        add(f"--{name}-decoder", action="store_true", help=summary)
    for kind in ("key", "value"):
        add(
            f"--{kind}-decoder-class",
            nargs="?",
            const="StringDecoder",
            metavar="CLASS",
            help=f"how to print {kind}s: StringDecoder, IntegerDecoder, LongDecoder, DefaultDecoder "
            "(hexadecimal), with or without Java package; other classes would need Java",
        )
    add("--index-sanity-check", action="store_true", help="only check indexes as a broker does at startup")
    add("--verify-index-only", action="store_true", help="only compare indexes with their logs")
    add(
        "--max-message-size",
        type=_positive,
        default=DEFAULT_MAX_MESSAGE_SIZE,
        metavar="BYTES",
        help=f"the largest batch that an index may point at (default {DEFAULT_MAX_MESSAGE_SIZE})",
    )
    add(
        "--max-bytes",
        type=_positive,
        default=MAX_INT,
        metavar="BYTES",
        help="read at most this much of a log",
    )
    add(
        "--kafka-release",
        choices=KAFKA_RELEASES,
        default=KAFKA_RELEASES[-1],
        help="the release whose output to print where releases differ (default 4.1; only in barnabas)",
    )
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= MAX_INT:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_INT}")
    return int(text)


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse(arguments)
    names = [re.sub("/+", "/", name) for name in options.files.split(",") if name]
    if not names:
        raise UsageError(f"{PROGRAM}: --files names no file; see {PROGRAM} --help")
    dump = Dump(options)
    worst = max(dump.file(name) for name in names)
    sys.stdout.flush()
    dump.faults.print_all()
    return worst or (Exit.FAILED if dump.faults.found else Exit.OK)


def choose_decoder(options: Namespace) -> Decoder | None:
    """The decoder that the options select; None if keys and values are not printed."""
    from barnabas.cli.dump_log import coordinator_records, decoders, metadata_records, remote_records

    if options.offsets_decoder:
        return coordinator_records.CoordinatorDecoder("group")
    if options.transaction_log_decoder:
        if options.kafka_release == "3.9":
            return coordinator_records.OldTransactionDecoder()
        return coordinator_records.CoordinatorDecoder("transaction")
    if options.cluster_metadata_decoder:
        return metadata_records.MetadataDecoder()
    if options.remote_log_metadata_decoder:
        return remote_records.RemoteDecoder()
    if options.share_group_state_decoder:
        return coordinator_records.CoordinatorDecoder("share")
    classes = (options.key_decoder_class, options.value_decoder_class)
    if not options.print_data_log and classes == (None, None):
        return None
    key, value = (decoders.plain_decoder(name or "StringDecoder") for name in classes)
    return decoders.PlainDecoder(key, value)


class Dump:
    """Prints files, and collects their faults."""

    def __init__(self, options: Namespace) -> None:
        from barnabas.cli.dump_log.faults import Faults
        from barnabas.cli.dump_log.indexes import IndexOptions
        from barnabas.cli.dump_log.logs import LogOptions
        from barnabas.runtime.disk.folder_disk import FolderDisk

        self._disk = FolderDisk()
        self.faults = Faults()
        decoder = choose_decoder(options)
        self._log_options = LogOptions(
            decoder=decoder,
            deep=options.deep_iteration or decoder is not None,
            skip_record_metadata=options.skip_record_metadata,
            max_bytes=options.max_bytes,
            kafka_release=options.kafka_release,
        )
        self._index_options = IndexOptions(
            options.index_sanity_check, options.verify_index_only, options.max_message_size
        )

    def file(self, path: str) -> Exit:
        """Print a file; an error is reported in one line."""
        from barnabas.base.errors import KafkaError

        print(f"Dumping {one_line(path)}")
        try:
            self._print(path)
            return Exit.OK
        except CommandError as error:
            line, code = str(error), error.code
        except KafkaError as error:
            line, code = f"{path}: {error.message}", Exit.FAILED
        except BrokenPipeError:
            raise
        except OSError as error:
            line, code = f"{PROGRAM}: {describe(error)}", code_for(error)
        sys.stdout.flush()
        print(one_line(line), file=sys.stderr)
        return code

    def _print(self, path: str) -> None:
        from barnabas.cli.dump_log import indexes, logs, producers

        suffix = path.rpartition("/")[2].rpartition(".")[2]
        if suffix in ("log", "checkpoint"):
            logs.dump_log(self._disk, path, self._log_options, self.faults, sys.stdout)
        elif suffix == "index":
            indexes.dump_offset_index(self._disk, path, self._index_options, self.faults, sys.stdout)
        elif suffix == "timeindex":
            indexes.dump_time_index(self._disk, path, self._index_options, self.faults, sys.stdout)
        elif suffix == "txnindex":
            indexes.dump_transaction_index(self._disk, path, sys.stdout)
        elif suffix == "snapshot":
            producers.dump_producer_snapshot(self._disk, path, sys.stdout)
        else:
            raise CommandError(f"Ignoring unknown file {path}")
