"""Reads the configuration file of a node."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from barnabas.cli.framework.exits import CommandError, UsageError
from barnabas.config import BROKER, ConfigError
from barnabas.config.node.node import Node, parse_node
from barnabas.config.node.overrides import parse_overrides
from barnabas.config.values.properties import LARGEST_FILE, PropertiesError, loads
from barnabas.runtime.disk.disk import Disk


def read_properties(disk: Disk, path: str) -> dict[str, str]:
    """Keys and values of a .properties file; an error names the file."""
    size = disk.size(path)
    if size > LARGEST_FILE:
        raise CommandError(
            f"{path}: the file has {size} bytes, a configuration file has at most {LARGEST_FILE}"
        )
    try:
        return loads(disk.read_bytes(path))
    except PropertiesError as error:
        raise CommandError(f"{path}: {error}") from error


def node_of(disk: Disk, path: str) -> Node:
    """The node that a file configures, for tools that do not start it; warns of unknown options."""
    try:
        node = parse_node(read_properties(disk, path))
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from error
    for warning in BROKER.unknown_warnings(node.settings.given, node.mode):
        print(f"{path}: {warning}", file=sys.stderr)
    return node


def overrides_of(program: str, arguments: Sequence[str]) -> dict[str, str]:
    """The options of `--override key=value`; raises UsageError."""
    try:
        return parse_overrides(arguments)
    except ConfigError as error:
        raise UsageError(f"{program}: {error}; see {program} --help") from error
