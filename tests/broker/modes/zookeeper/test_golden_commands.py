"""Options, quotas, SCRAM users and ACLs: the commands that were recorded leave the recorded znodes.

Those of topics and of the controller are in `controller/test_golden_steps.py`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.cli.main import main
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from tests.broker.modes.zookeeper.controller.recorded import recorded_headings, recorded_znodes
from tests.broker.worlds.zookeeper_world import ZooKeeperBrokers

OPTIONS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
# What brokers write.
ROOTS = (
    paths.CONFIG,
    paths.ACLS,
    paths.EXTENDED_ACLS,
    paths.ACL_CHANGES,
    paths.EXTENDED_ACL_CHANGES,
)
_SALTED = re.compile(r"(salt|stored_key|server_key)=[^,\"]+")


class Seen(NamedTuple):
    """What a znode says, how often it was set, and whether it stays."""

    content: str | None
    version: int
    is_ephemeral: bool


def seen(data: str | None, version: int, *, is_ephemeral: bool) -> Seen:
    """The order of options in a map of Java is chance, and that of ACLs in a set."""
    content = data
    if data is not None and data.startswith("{"):
        fields = json.loads(_SALTED.sub(r"\1=…", data))
        if "acls" in fields:
            fields["acls"].sort(key=json.dumps)
        content = json.dumps(fields, sort_keys=True)
    return Seen(content, version, is_ephemeral)


def is_compared(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in ROOTS)


def recorded_tree(step: str) -> dict[str, Seen]:
    return {
        path: seen(znode["data"], znode["version"], is_ephemeral=znode["ephemeral"])
        for path, znode in recorded_znodes(step).items()
        if is_compared(path)
    }


@pytest.fixture
def brokers(zookeeper_connect: str) -> Iterator[ZooKeeperBrokers]:
    with ZooKeeperBrokers(zookeeper_connect, brokers=3, options=OPTIONS) as brokers:
        yield brokers


def tree(brokers: ZooKeeperBrokers, client: ZooKeeperClient) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    waiting = list(ROOTS)
    while waiting:
        path = waiting.pop()
        znode = brokers.run(partial(client.get, path))
        if znode is None:
            continue
        data = None if znode.data is None else znode.data.decode()
        found[path] = seen(data, znode.stat.version, is_ephemeral=bool(znode.stat.ephemeral_owner))
        waiting += [f"{path}/{child}" for child in brokers.run(partial(client.children, path)) or []]
    return found


def carry_out(brokers: ZooKeeperBrokers, tool: str, count: int) -> None:
    """The first recorded commands of this tool."""
    found = [line for line in recorded_headings() if line.startswith(f"{tool} ")][:count]
    assert len(found) == count
    for line in found:
        words = shlex.split(line.removeprefix("kafka-"))
        words[words.index("--bootstrap-server") + 1] = brokers.bootstrap_servers
        assert main(words) == 0, line


def test_options_quotas_users_and_acls(brokers: ZooKeeperBrokers) -> None:  # M-B2
    client = brokers.client()
    carry_out(brokers, "kafka-topics", 3)
    assert tree(brokers, client) == recorded_tree("02-topics-created")
    carry_out(brokers, "kafka-configs", 9)
    assert tree(brokers, client) == recorded_tree("03-configs-scram-quotas")
    carry_out(brokers, "kafka-acls", 5)
    assert tree(brokers, client) == recorded_tree("04-acls")
