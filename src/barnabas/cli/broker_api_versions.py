"""`barnabas broker-api-versions`: the API versions that each broker supports.

The flags and lines are those of Apache Kafka's kafka-broker-api-versions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit

if TYPE_CHECKING:
    from barnabas.client.model import Node
    from barnabas.protocol.schema import Versions

PROGRAM = "barnabas broker-api-versions"


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Show the API versions that each broker supports.")
    add_connection_flags(parser, old_broker_list=True)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    worst = Exit.OK
    with open_admin(parser, options) as admin:
        for node, versions in sorted(admin.describe_api_versions().items(), key=lambda item: item[0].id):
            if isinstance(versions, Mapping):
                lines = ",\n".join(lines_of(versions))
                print(f"{node_text(node)} -> (\n{lines}\n)")
            else:
                print(f"{node_text(node)} -> ERROR: {versions.message}", file=sys.stderr)
                worst = Exit.UNREACHABLE
    return worst


def node_text(node: Node) -> str:
    fenced = "true" if node.is_fenced else "false"
    return f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: {fenced})"


def lines_of(versions: Mapping[int, Versions]) -> list[str]:
    """One line per API that the broker or this client knows: `Produce(0): 0 to 13 [usable: 13]`."""
    from barnabas.protocol.apis import apis

    known = {key: api for key, api in apis().items() if "broker" in api.listeners}
    lines = []
    for key in sorted({*versions, *known}):
        if key not in known:
            lines.append(f"\tUNKNOWN({key}): {_range(versions[key])}")
        elif key not in versions:
            lines.append(f"\t{known[key].name}({key}): UNSUPPORTED")
        else:
            usable = _usable(versions[key], known[key].versions)
            lines.append(f"\t{known[key].name}({key}): {_range(versions[key])} [usable: {usable}]")
    return lines


def _range(versions: Versions) -> str:
    lowest, highest = versions.lowest, versions.highest
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _usable(theirs: Versions, ours: Versions) -> str:
    """The newest version that both support."""
    newest = min(theirs.highest, ours.highest)
    return str(newest) if newest in theirs and newest in ours else "UNSUPPORTED"
