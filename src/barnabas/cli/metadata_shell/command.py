"""`barnabas metadata-shell`: browse the metadata of a cluster like a file system.

The commands, the tree and the lines are those of Apache Kafka's kafka-metadata-shell.  Unlike that tool, it
also reads the folder of a running node and the log of a running quorum, and a missing path has a non-zero
exit code.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser, KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit

if TYPE_CHECKING:
    from barnabas.metadata.image import Image

PROGRAM = "barnabas metadata-shell"


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Show the metadata in a file or folder of __cluster_metadata-0, or of a running quorum.",
        "Commands: cat PATH..., find [PATH...], ls [PATH...], tree PATH...; interactive without one.",
    )
    add = parser.add_argument
    add("--snapshot", "-s", metavar="FILE", help="the metadata log or snapshot to read")
    add(
        "--directory",
        "-d",
        metavar="FOLDER",
        help="the log directory to read, also of a running node: its latest snapshot, and the log after it",
    )
    add(
        "--bootstrap-controller",
        "--controllers",
        metavar="HOST:PORT,...",
        help="controllers of a running quorum to read from",
    )
    add("--bootstrap-server", metavar="HOST:PORT,...", help="brokers of a running cluster to read from")
    add("--command-config", metavar="FILE", help="properties file of the client")
    add("command", nargs="*", metavar="COMMAND", help="command to run (default: read commands from stdin)")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    load = _source(parser, options)
    from barnabas.cli.metadata_shell.shell_commands import Shell
    from barnabas.cli.metadata_shell.tree import root

    if not options.command:
        print("Loading...")
    image = load()
    if image.offset < 0:
        source = options.snapshot or options.directory or "the quorum"
        raise CommandError(f"{source}: there are no metadata records", Exit.NOT_FOUND)
    if options.command:
        return Shell(root(image)).run(options.command)
    import shutil

    from barnabas.cli.metadata_shell.interactive import run_interactive

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print("Starting...")
    shell = Shell(root(image), interactive=True, width=width)
    is_live = options.bootstrap_controller or options.bootstrap_server
    run_interactive(shell, (lambda: root(load())) if is_live else None)
    return Exit.OK


def _source(parser: ArgumentParser, options: Namespace) -> Callable[[], Image]:
    """Loads the image; for a running quorum, again with what was committed meanwhile."""
    flags = ("snapshot", "directory", "bootstrap_controller", "bootstrap_server")
    given = [flag for flag in flags if getattr(options, flag) is not None]
    if len(given) != 1:
        names = ", ".join(f"--{flag.replace('_', '-')}" for flag in flags)
        parser.error(f"give one of {names}")
    from barnabas.runtime.disk.folder_disk import FolderDisk

    if options.snapshot is not None:
        from barnabas.cli.metadata_shell.image_loader import load

        return lambda: load(FolderDisk(), options.snapshot)
    if options.directory is not None:
        from barnabas.cli.metadata_shell.image_loader import load_directory

        return lambda: load_directory(FolderDisk(), options.directory)
    from barnabas.cli.metadata_shell.live_image import LiveImage

    return LiveImage(parser, options).load
