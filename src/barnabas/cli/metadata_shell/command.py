"""`barnabas metadata-shell`: browse the metadata of a cluster like a file system.

The commands, the tree and the lines are those of Apache Kafka's kafka-metadata-shell.  Unlike that tool, the
file may belong to a running node, and a missing path has a non-zero exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit

PROGRAM = "barnabas metadata-shell"


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Show the metadata in a .log or .checkpoint file of __cluster_metadata-0.",
        "Commands: cat PATH..., find [PATH...], ls [PATH...], tree PATH...; interactive without one.",
    )
    parser.add_argument(
        "--snapshot", "-s", required=True, metavar="FILE", help="the metadata log or snapshot to read"
    )
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="command to run (default: read commands from stdin)"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse(arguments)
    from barnabas.cli.metadata_shell.image_loader import load
    from barnabas.cli.metadata_shell.shell_commands import Shell
    from barnabas.cli.metadata_shell.tree import root
    from barnabas.runtime.disk.folder_disk import FolderDisk

    if not options.command:
        print("Loading...")
    image = load(FolderDisk(), options.snapshot)
    if image.offset < 0:
        raise CommandError(f"{options.snapshot}: the file has no metadata records", Exit.NOT_FOUND)
    if options.command:
        return Shell(root(image)).run(options.command)
    import shutil

    from barnabas.cli.metadata_shell.interactive import run_interactive

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print("Starting...")
    run_interactive(Shell(root(image), interactive=True, width=width))
    return Exit.OK
