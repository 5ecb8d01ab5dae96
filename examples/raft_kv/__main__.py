"""A replicated key-value store on `barnabas.raft`, for docs/tutorial/raft-by-example.md."""

import argparse
import itertools
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from barnabas.runtime.loop.event_loop import run
from barnabas.runtime.loop.reactor import Reactor
from examples.raft_kv.server import Members, Server

THREE = "localhost:16010:1,localhost:16020:2,localhost:16030:3"
PATIENCE_S = 10


def members(text: str) -> Members:
    parts = [server.rsplit(":", 2) for server in text.split(",")]
    return {int(id): (host, int(port)) for host, port, id in parts}


def ask(servers: Members, command: dict[str, str]) -> str | None:
    """Send the command to the leader.  Any server knows it; while there is none, try again."""
    request = json.dumps({"id": os.urandom(8).hex(), **command}).encode() + b"\n"
    give_up, turn, leader = time.monotonic() + PATIENCE_S, itertools.cycle(servers), -1
    while time.monotonic() < give_up:
        address, leader = servers[leader if leader in servers else next(turn)], -1
        with suppress(OSError, ValueError), socket.create_connection(address, PATIENCE_S) as connection:
            connection.sendall(request)
            answer = json.loads(connection.makefile().readline())
            if "leader" not in answer:
                return answer["value"]  # type: ignore[no-any-return]
            leader = answer["leader"]
        time.sleep(0.05)
    sys.exit("no answer from a majority of the servers; the command may still take effect")


parser = argparse.ArgumentParser(prog="python -m examples.raft_kv", description=__doc__)
parser.add_argument("words", nargs="+", metavar="server ID SERVERS | client set KEY VALUE | client get KEY")
parser.add_argument("--servers", default=THREE, help="host:port:id of every server, for a client")
parser.add_argument("--data", metavar="DIR", help="folder of a server's journal (default: raft-kv-ID)")
parser.add_argument("--snapshot-every", type=int, default=1000, metavar="COMMANDS")
given = parser.parse_intermixed_args()
match given.words:
    case ["server", id, servers]:
        folder, reactor = given.data or f"raft-kv-{id}", Reactor()
        server = Server(int(id), members(servers), folder, given.snapshot_every, reactor)
        Path(folder, "pid").write_text(f"{os.getpid()}\n", "ascii")
        with suppress(KeyboardInterrupt):
            run(reactor, server.run())
    case ["client", "set", key, value]:
        ask(members(given.servers), {"key": key, "value": value})
    case ["client", "get", key]:
        found = ask(members(given.servers), {"key": key})
        sys.exit(f"{key} is not set") if found is None else print(found)
    case _:
        parser.error("server ID SERVERS, client set KEY VALUE or client get KEY")
