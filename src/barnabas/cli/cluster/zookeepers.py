"""The ZooKeeper servers of a local cluster: their files, their start, and what they are doing.

zk-1/zoo.cfg               as `zk-server` reads it
zk-1/data/                 dataDir, with myid
zk-1/zookeeper.log
zk-1/process.json          the last process of the server
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial

from barnabas.base.units import NS_PER_MS
from barnabas.cli.cluster.layout import HOST, Layout, LocalZooKeeper
from barnabas.cli.cluster.processes import PROCESS_FILE, RUNNING, NodeProcess, State, read_process
from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.reactor import Reactor

# Enough for what one machine has to remember.
HEAP = "-Xmx256M -Xms32M"
# A tick bounds the session timeouts that are granted: from 2 to 20 ticks, and Kafka's 18 s is one of them.
TICK_MS = 1_000
POLL_MS = 50
_ZOO_CFG = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
tickTime={tick}
initLimit=30
syncLimit=10
maxClientCnxns=0
"""


def write_files(disk: Disk, layout: Layout) -> None:
    """The configuration and the number of each server."""
    servers = "".join(
        f"server.{each.number}={HOST}:{each.peer_port}:{each.election_port}\n" for each in layout.zookeepers
    )
    for each in layout.zookeepers:
        data = os.path.join(layout.node_folder(each), "data")
        disk.make_folder(data)
        text = _ZOO_CFG.format(data=data, port=each.client_port, host=HOST, tick=TICK_MS)
        if len(layout.zookeepers) > 1:
            text += servers
            disk.write_atomically(os.path.join(data, "myid"), f"{each.number}\n".encode())
        disk.write_atomically(config_file(layout, each), text.encode())


def config_file(layout: Layout, server: LocalZooKeeper) -> str:
    return os.path.join(layout.node_folder(server), "zoo.cfg")


def start_servers(
    disk: Disk, layout: Layout, servers: Sequence[LocalZooKeeper], timeout_ms: int
) -> dict[str, str]:
    """Starts them together; returns why those that did not start have not."""
    with ThreadPoolExecutor(max(1, len(servers))) as pool:
        failures = list(pool.map(partial(_start, disk, layout), servers))
    failed = {server.id: why for server, why in zip(servers, failures, strict=True) if why is not None}
    if not failed:
        _wait_to_serve(servers[0], timeout_ms)
    return failed


def _start(disk: Disk, layout: Layout, server: LocalZooKeeper) -> str | None:
    from barnabas.cli.zookeeper.starting import start_daemon
    from barnabas.cli.zookeeper.zoo_cfg import read_zoo_cfg

    try:
        config = read_zoo_cfg(disk, config_file(layout, server))
        info = start_daemon(disk, config, log=layout.log_file(server), heap=HEAP)
    except CommandError as error:
        reason = str(error).removeprefix("barnabas: ")
        _write(disk, layout, server, NodeProcess(0, "", State.FAILED, reason))
        return reason
    _write(disk, layout, server, info.process)
    return None


def _wait_to_serve(server: LocalZooKeeper, timeout_ms: int) -> None:
    """A server serves once a majority runs; without it, brokers wait."""
    from barnabas.runtime.zookeeper.four_letter_words import server_state

    reactor = Reactor()
    deadline_ns = reactor.clock.monotonic_ns() + timeout_ms * NS_PER_MS
    try:
        while server_state(HOST, server.client_port) is None and reactor.clock.monotonic_ns() < deadline_ns:
            reactor.serve(POLL_MS * NS_PER_MS)
    finally:
        reactor.close()


def has_stopped(disk: Disk, layout: Layout, server: LocalZooKeeper) -> None:
    """Remember that it was stopped, as a broker remembers it itself."""
    process = read_process(disk, layout.node_folder(server))
    if process is not None and process.state not in RUNNING:
        _write(disk, layout, server, NodeProcess(process.pid, process.started, State.STOPPED))


def mode_of(server: LocalZooKeeper) -> str | None:
    """leader, follower or standalone; None while it does not serve."""
    from barnabas.runtime.zookeeper.four_letter_words import server_state

    state = server_state(HOST, server.client_port)
    return None if state is None else state.mode


def _write(disk: Disk, layout: Layout, server: LocalZooKeeper, process: NodeProcess) -> None:
    path = os.path.join(layout.node_folder(server), PROCESS_FILE)
    disk.write_atomically(path, json.dumps(asdict(process)).encode(), sync=False)
