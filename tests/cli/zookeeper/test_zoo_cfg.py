"""zoo.cfg and myid: what they say, and what is refused with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.framework.exits import CommandError
from barnabas.cli.zookeeper.zoo_cfg import ZooCfg, read_zoo_cfg
from barnabas.runtime.disk.folder_disk import FolderDisk

THREE = "server.1=worker1:2888:3888\nserver.2=worker2:2888:3888\nserver.3=[::1]:2888:3888:observer\n"


def read(tmp_path: Path, text: str, my_id: str | None = None) -> ZooCfg:
    data = tmp_path / "data"
    data.mkdir()
    if my_id is not None:
        (data / "myid").write_text(my_id, "utf-8")
    config = tmp_path / "zoo.cfg"
    config.write_text(text.replace("DATA", str(data)), "utf-8")
    return read_zoo_cfg(FolderDisk(), str(config))


def test_a_server_alone(tmp_path: Path) -> None:
    config = read(tmp_path, "# one\ntickTime=2000\ndataDir=DATA\nclientPort = 2181\n")
    assert config == ZooCfg(
        str(tmp_path / "zoo.cfg"), str(tmp_path / "data"), "localhost", 2181, my_id=0, servers={}
    )
    assert config.pid_file == str(tmp_path / "data" / "zookeeper_server.pid")


def test_an_ensemble(tmp_path: Path) -> None:  # M-J2
    config = read(tmp_path, f"dataDir=DATA\nclientPort=2181\nclientPortAddress=127.0.0.1\n{THREE}", "2\n")
    assert (config.my_id, config.client_host, config.client_port) == (2, "127.0.0.1", 2181)
    assert config.servers[3] == "[::1]:2888:3888:observer"


def test_the_client_port_may_be_that_of_the_server(tmp_path: Path) -> None:
    servers = "server.1=a:2888:3888;2191\nserver.2=b:2888:3888;0.0.0.0:2192\n"
    assert read(tmp_path, f"dataDir=DATA\n{servers}", "2").client_port == 2192


@pytest.mark.parametrize(
    ("text", "my_id", "reason"),
    [
        ("clientPort=2181\n", None, r"dataDir is missing: set it to the folder of the server's data"),
        ("dataDir=DATA\n", None, "clientPort is missing: set it, usually to 2181"),
        ("dataDir=DATA\nclientPort=x\n", None, "clientPort=x is no port"),
        ("dataDir=DATA\nclientPort=70000\n", None, "clientPort=70000 is no port"),
        (
            f"dataDir=DATA\nclientPort=1\n{THREE}",
            None,
            r"myid is missing: write this server's number \(1, 2, 3\)",
        ),
        (f"dataDir=DATA\nclientPort=1\n{THREE}", "4", "myid has '4', and the servers are 1, 2, 3"),
        (f"dataDir=DATA\nclientPort=1\n{THREE}", "one", "myid has 'one', and the servers are 1, 2, 3"),
        (
            "dataDir=DATA\nclientPort=1\nserver.1=a:2888\nserver.2=b\n",
            "1",
            "server.1=a:2888: give host:2888:3888",
        ),
        (
            "dataDir=DATA\nclientPort=1\nserver.x=a:1:2\n",
            "1",
            r"server.x: a server has a number from 0 to 255",
        ),
        ("dataDir=DATA\nclientPort=1\nserver.300=a:1:2\n", "1", r"server.300: a server has a number"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, my_id: str | None, reason: str) -> None:
    with pytest.raises(CommandError, match=f"barnabas: .*zoo.cfg: .*{reason}"):
        read(tmp_path, text, my_id)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"barnabas: .*zoo.cfg: there is no such file"):
        read_zoo_cfg(FolderDisk(), str(tmp_path / "zoo.cfg"))
