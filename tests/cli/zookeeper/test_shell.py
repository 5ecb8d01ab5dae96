"""`barnabas zookeeper-shell` on a real ZooKeeper; its lines are those of the shell in Apache Kafka 3.9.1."""

from __future__ import annotations

import io
import re

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.zookeeper.shell_texts import parse_acl
from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
from barnabas.runtime.zookeeper.client import Acl
from tests.cli.conftest import Call, CommandResult
from tools.ports import free_ports

CONNECTED = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
CLOSED = "\nWATCHER::\n\nWatchedEvent state:Closed type:None path:null\n"


@pytest.fixture
def root(zookeeper_connect: str) -> str:
    """The address of a path that exists and is empty."""
    server, _, path = zookeeper_connect.partition("/")
    with BlockingZooKeeper(server, 60_000) as zookeeper:
        zookeeper.run(lambda: zookeeper.client.create(f"/{path}"))
    return zookeeper_connect


@pytest.fixture
def typed(root: str, barnabas: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The output of lines that are typed into the shell."""

    def run(*lines: str) -> CommandResult:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        result = barnabas("zookeeper-shell", root)
        start = f"Connecting to {root}\nWelcome to ZooKeeper!\n{CONNECTED}"
        assert result.code == 0
        assert result.out.startswith(start)
        out = result.out.removeprefix(start)
        assert out.endswith(CLOSED)
        return CommandResult(0, out.removesuffix(CLOSED), result.err)

    return run


def without_times(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]{2,}|0x[1-9a-f]", "0xN", text)
    return re.sub(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}", "TIME", text)


STAT = """\
cZxid = 0xN
ctime = TIME
mZxid = 0xN
mtime = TIME
pZxid = 0xN
cversion = {cversion}
dataVersion = {version}
aclVersion = 0
ephemeralOwner = {owner}
dataLength = {length}
numChildren = {children}
"""


def test_one_command(root: str, barnabas: Call) -> None:  # M-B2
    assert barnabas("zookeeper-shell", root, "create", "/a", "some data").err == "Created /a\n"
    result = barnabas("zookeeper-shell", root, "ls", "/")
    assert (result.code, result.out, result.err) == (0, f"Connecting to {root}\n{CONNECTED}[a]\n", "")
    result = barnabas("zookeeper-shell", root, "get", "/a")
    assert result.out.endswith("\nsome data\n")


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        (["get", "/none"], Exit.FAILED, "Node does not exist: /none\n"),
        (["delete", "/none"], Exit.FAILED, "Node does not exist: /none\n"),
        (["create", "/a/b"], Exit.FAILED, "Node does not exist: /a/b\n"),
        (["ls"], Exit.FAILED, "ls [-s] [-w] [-R] path\n"),
        (["get", "none"], Exit.FAILED, "Path must start with / character\n"),
        (["get", "/none/"], Exit.FAILED, "Path must not end with / character\n"),
        (["ls", "-x", "/"], Exit.FAILED, "Unrecognized option: -x; ls [-s] [-w] [-R] path\n"),
        (["set", "-v", "x", "/a", "b"], Exit.FAILED, "set [-s] [-v version] path data\n"),
    ],
)
def test_one_command_that_fails(
    root: str, barnabas: Call, command: list[str], code: Exit, error: str
) -> None:
    result = barnabas("zookeeper-shell", root, *command)
    assert (result.code, result.err) == (code, error)


def test_an_unknown_command(root: str, barnabas: Call) -> None:
    result = barnabas("zookeeper-shell", root, "bogus")
    assert result.code == 127
    assert result.err.endswith("\tversion \nCommand not found: Command not found bogus\n")


def test_znodes_of_every_kind(typed: Call) -> None:
    result = typed(
        "create /a hello",
        "create /a again",
        "create -e /a/e data",
        "create -s /a/seq- d",
        "create /nul",
        'create "/with space" "some data"',
        'get "/with space"',
        "get -s /a",
        "get /nul",
        "get /missing",
        "ls /",
        "ls -R /a",
        "getEphemerals",
        "getAllChildrenNumber /a",
        "stat /a/e",
    )
    owner = STAT.format(cversion=0, version=0, owner="0xN", length=4, children=0)
    assert without_times(result.out) == (
        "some data\nhello\n"
        + STAT.format(cversion=2, version=0, owner="0x0", length=5, children=2)
        + "null\n[a, nul, with space]\n/a\n/a/e\n/a/seq-0000000001\n[/a/e]\n2\n"
        + owner
    )
    assert result.err == (
        "Created /a\nNode already exists: /a\nCreated /a/e\nCreated /a/seq-0000000001\nCreated /nul\n"
        "Created /with space\nNode does not exist: /missing\n"
    )


def test_changes_and_their_versions(typed: Call) -> None:
    result = typed(
        "create /a one",
        "set /a two",
        "set -v 7 /a three",
        "set -s /a four",
        "create /a/b",
        "delete /a",
        "delete -v 7 /a/b",
        "create -e /e",
        "create /e/child",
        "deleteall /a",
        "ls /",
        "sync /",
    )
    stat = STAT.format(cversion=0, version=2, owner="0x0", length=4, children=0)
    assert without_times(result.out) == stat + "[e]\nSync is OK\n"
    assert result.err == (
        "Created /a\nversion No is not valid : /a\nCreated /a/b\nNode not empty: /a\n"
        "version No is not valid : /a/b\nCreated /e\nEphemerals cannot have children: /e/child\n"
    )


def test_acls(typed: Call) -> None:
    result = typed(
        "create /a x",
        "getAcl /a",
        "setAcl /a world:anyone:r",
        "getAcl /a",
        "set /a y",
        "create /a/b",
        "setAcl /a bogus",
        "create /c x world:anyone:cr",
        "getAcl /c",
        "setAcl /c world:anyone:x",
    )
    assert result.out == "'world,'anyone\n: cdrwa\n'world,'anyone\n: r\n'world,'anyone\n: cr\n"
    assert result.err == (
        "Created /a\nInsufficient permission : /a\nInsufficient permission : /a/b\n"
        "bogus does not have the form scheme:id:perm\nAcl is not valid : null\nCreated /c\n"
        "Unknown perm type: x\nAcl is not valid : null\n"
    )


def test_acls_are_parsed() -> None:
    assert parse_acl("world:anyone:cdrwa") == [Acl(31, "world", "anyone")]
    # An IPv6 address has colons, and so has what a digest signs.
    assert parse_acl("digest:u:hash=:r,ip:::1:w") == [Acl(1, "digest", "u:hash="), Acl(2, "ip", "::1")]


def test_watches_are_printed(typed: Call) -> None:
    result = typed("create /a 1", "get -w /a", "set /a 2", "sync /", "ls -w /a", "create /a/b", "sync /")
    event = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:{} path:/a\n"
    assert result.out == (
        "1\n"
        + event.format("NodeDataChanged")
        + "Sync is OK\n[]\n"
        + event.format("NodeChildrenChanged")
        + "Sync is OK\n"
    )


def test_history_and_redo(typed: Call) -> None:
    result = typed(
        "create /a 1", "redo 0", "history", "printwatches off", "printwatches", "redo 9", "quit", "ls /"
    )
    assert result.out == "0 - create /a 1\n1 - redo 0\n2 - history\nprintwatches is off\n"
    assert result.err == "Created /a\nNode already exists: /a\nCommand index out of range\n"


def test_close_and_connect(typed: Call, root: str) -> None:
    result = typed("close", "ls /", f"connect {root}", "ls /")
    assert result.out == f"{CLOSED}{CONNECTED}[]\n"
    assert result.err == "Not connected\n"


def test_tree_shows_data(typed: Call) -> None:
    result = typed("create /a one", "create /a/b", "create -e /a/b/c two", "tree", "tree /a/b")
    tree = "/\n  a  one\n    b\n      c (ephemeral)  two\n/a/b\n  c (ephemeral)  two\n"
    assert result.out == tree


def test_a_server_that_is_not_there(barnabas: Call) -> None:
    [port] = free_ports(1)
    result = barnabas("zookeeper-shell", "--timeout", "200", f"127.0.0.1:{port}", "ls", "/")
    assert result.code == Exit.UNREACHABLE
    assert result.out == f"Connecting to 127.0.0.1:{port}\n"
    assert result.err == (
        f"barnabas: no server of ZooKeeper at 127.0.0.1:{port} has accepted a session within 200 ms: "
        "see that it runs and that this address is right\n"
    )


@pytest.mark.parametrize("address", ["host:port", "a:1/x,b:2", "", "a:99999", "a:1//x"])
def test_malformed_addresses(barnabas: Call, address: str) -> None:
    result = barnabas("zookeeper-shell", address, "ls", "/")
    assert result.code != 0
    assert result.err.count("\n") == 1
    assert "ZooKeeper" in result.err


def test_without_arguments_there_is_help(barnabas: Call) -> None:
    result = barnabas("zookeeper-shell")
    assert result.code == Exit.USAGE
    assert "HOST:PORT" in result.err
