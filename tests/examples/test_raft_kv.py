"""The replicated key-value store of examples/raft_kv: three processes that are killed in every way.

walkthrough 6: kill -9 of the leader, then of all three, and nothing that was written is lost.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from examples.raft_kv.state_machine import EMPTY, REMEMBERED, Store
from tests.examples.raft_kv_servers import PROJECT, eventually, three_servers


def test_nothing_written_is_lost(tmp_path: Path) -> None:
    # M-C10
    with three_servers(tmp_path) as servers:
        assert servers.client("set", "colour", "blue").returncode == 0
        assert servers.client("get", "colour").stdout == "blue\n"
        missing = servers.client("get", "size")
        assert (missing.returncode, missing.stderr) == (1, "size is not set\n")

        servers.kill(servers.leader())
        assert servers.client("get", "colour").stdout == "blue\n"
        assert servers.client("set", "colour", "green").returncode == 0

        servers.kill(*servers.processes)
        servers.start(1, 2, 3)
        assert servers.client("get", "colour").stdout == "green\n"
        eventually(lambda: servers.batches(1) == servers.batches(2) == servers.batches(3))


def test_a_minority_cannot_write_nor_read(tmp_path: Path) -> None:
    with three_servers(tmp_path) as servers:
        servers.set("colour", "blue")
        leader = servers.leader()
        others = [id for id in servers.processes if id != leader]
        for id in others:
            servers.pause(id)
        # The leader accepts the commands, cannot commit them, and says so when it has lost its quorum.
        assert servers.answer(leader, id="1", key="colour", value="red") == {"leader": -1}
        assert "value" not in (servers.answer(leader, id="2", key="colour") or {})
        for id in others:
            servers.resume(id)
        eventually(lambda: servers.get("colour") in ("blue", "red"))


def test_a_server_with_an_empty_disk_catches_up_from_a_snapshot(tmp_path: Path) -> None:
    with three_servers(tmp_path, snapshot_every=20) as servers:
        follower = next(id for id in servers.processes if id != servers.leader())
        servers.kill(follower)
        for number in range(50):
            servers.set(f"key-{number}", str(number))
        for path in (tmp_path / str(follower)).iterdir():
            path.unlink()
        servers.start(follower)
        leader = servers.leader()
        eventually(lambda: servers.batches(follower)[-1:] == servers.batches(leader)[-1:])
        assert servers.journal(follower)[0]["is"] == "bytes", "it begins with a snapshot"
        # The first commands are in the snapshot alone.
        assert servers.batches(follower)[0]["base_offset"] >= 20
        other = next(id for id in servers.processes if id not in (follower, leader))
        servers.kill(other)
        assert [servers.get(f"key-{number}") for number in (0, 49)] == ["0", "49"]


def test_a_torn_write_is_dropped(tmp_path: Path) -> None:
    with three_servers(tmp_path) as servers:
        servers.set("colour", "blue")
        servers.kill(*servers.processes)
        for id in (1, 2, 3):
            path = tmp_path / str(id) / "journal"
            path.write_bytes(path.read_bytes() + b'12345678 {"is": "FetchedBa')
        servers.start(1, 2, 3)
        assert servers.get("colour") == "blue"


def test_a_command_that_is_sent_again_takes_effect_once(tmp_path: Path) -> None:
    with three_servers(tmp_path) as servers:
        leader = servers.leader()
        assert servers.answer(leader, id="first", key="colour", value="blue") == {"value": "blue"}
        assert servers.answer(leader, id="second", key="colour", value="green") == {"value": "green"}
        assert servers.answer(leader, id="first", key="colour", value="blue") == {"value": "blue"}
        assert servers.get("colour") == "green"
        # Not a command: the connection is closed, and the server goes on.
        assert servers.answer(leader, 10, **{"is": "Popen"}) is None
        assert servers.get("colour") == "green"


def test_results_are_bounded_and_in_the_snapshot() -> None:
    store = Store(EMPTY)
    for number in range(REMEMBERED + 10):
        store.apply({"id": str(number), "key": "a", "value": str(number)})
    assert len(store.results) == REMEMBERED
    copy = Store(store.snapshot())
    assert vars(copy) == vars(store)
    assert copy.apply({"id": "20", "key": "a", "value": "again"}) == "20"
    assert copy.values == {"a": str(REMEMBERED + 9)}


def test_it_is_short() -> None:
    """A first lesson: at most 300 lines in all."""
    files = (PROJECT / "examples" / "raft_kv").glob("*.py")
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= 300


def test_what_is_not_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.raft_kv", "client", "put", "colour", "blue"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: server ID SERVERS, client set KEY VALUE or client get KEY" in done.stderr
