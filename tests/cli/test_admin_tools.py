"""The flags of the admin tools beyond the recorded sessions, on one broker with two log directories."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Producer
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.conftest import Call
from tests.cli.sessions.replay import own_broker
from tests.cli.sessions.sessions import Places

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """A broker with an authorizer that allows everything by default."""
    with quick_folder() as folder:
        folders = f"{folder / 'first'},{folder / 'second'}"
        settings = {**AUTHORIZER, "super.users": "User:ANONYMOUS", "log.dirs": folders}
        with own_broker(folder, settings) as found:
            yield found


@pytest.fixture(scope="module")
def closed() -> Iterator[Places]:
    """A broker with an authorizer that denies everything."""
    with (
        quick_folder() as folder,
        own_broker(folder, {**AUTHORIZER, "super.users": "User:somebody"}) as found,
    ):
        yield found


@pytest.fixture
def tool(barnabas: Call, places: Places) -> Any:
    """Run a tool against the broker."""

    def run(name: str, *arguments: str) -> Any:
        return barnabas(name, "--bootstrap-server", places.server, *arguments)

    return run


@pytest.fixture
def topic(tool: Call) -> str:
    name = f"topic-{next(_numbers)}"
    assert tool("topics", "--create", "--topic", name, "--partitions", "2").code == 0
    return name


def folder_of(tool: Call, topic: str) -> str:
    """The log directory of partition 0 of a topic."""
    page = json.loads(tool("log-dirs", "--describe", "--topic-list", topic).out.splitlines()[-1])
    homes: dict[str, str] = {
        one["partition"]: each["logDir"]
        for each in page["brokers"][0]["logDirs"]
        for one in each["partitions"]
    }
    return homes[f"{topic}-0"]


# Streams and codes ------------------------------------------------------------------------------------------


def test_errors_go_to_stderr_and_data_to_stdout(tool: Call, topic: str) -> None:
    listed = tool("topics", "--list", "--topic", topic)
    assert (listed.code, listed.out, listed.err) == (0, f"{topic}\n", "")
    again = tool("topics", "--create", "--topic", topic)
    assert (again.code, again.out) == (1, "")
    assert again.err == f"Error while executing topic command : Topic '{topic}' already exists.\n"


def test_a_warning_goes_to_stderr(tool: Call) -> None:
    result = tool("topics", "--create", "--topic", "with.dot")
    assert result.out == "Created topic with.dot.\n"
    assert result.err.startswith("WARNING: ")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topics", ("--create", "--topic", "x")),
        ("configs", ("--alter", "--topic", "x", "--add-config", "retention.ms=1")),
        ("configs", ("--describe", "--broker", "1")),
        ("acls", ("--list",)),
        ("log-dirs", ("--describe",)),
        ("reassign-partitions", ("--list",)),
        ("leader-election", ("--election-type", "preferred", "--all-topic-partitions")),
    ],
)
def test_an_unauthorized_user_is_denied(
    barnabas: Call, closed: Places, name: str, arguments: tuple[str, ...]
) -> None:
    result = barnabas(name, "--bootstrap-server", closed.server, *arguments)
    assert result.code == Exit.DENIED
    assert result.err.count("\n") == 1
    assert "authoriz" in result.err.lower()


@pytest.mark.trap
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("topics", ("--describe", "--topic", "nope")),
        ("topics", ("--delete", "--topic", "nope")),
        ("configs", ("--describe", "--topic", "nope")),
        ("configs", ("--describe", "--group", "nope")),
        ("configs", ("--alter", "--topic", "nope", "--add-config", "retention.ms=1")),
        ("delete-records", ("--offset-json-file", "{beyond}")),
        ("delete-records", ("--offset-json-file", "{beyond}.none")),
        ("log-dirs", ("--describe", "--broker-list", "9")),
        ("get-offsets", ("--topic", "nope")),
        ("leader-election", ("--election-type", "preferred", "--topic", "nope", "--partition", "0")),
        ("reassign-partitions", ("--execute", "--reassignment-json-file", "{beyond}")),
    ],
)
def test_no_failure_ends_with_0(
    tool: Call, topic: str, tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    """Trap 24: exit code 0 on failure, the most common CLI bug."""
    beyond = tmp_path / "beyond.json"
    part = {"topic": topic, "partition": 0, "offset": 99, "replicas": [9]}
    beyond.write_text(json.dumps({"version": 1, "partitions": [part]}), "utf-8")
    result = tool(name, *(word.format(beyond=beyond) for word in arguments))
    assert result.code in (Exit.FAILED, Exit.NOT_FOUND)
    assert result.err.strip()
    assert "Traceback" not in result.err


def test_an_old_zookeeper_flag_is_accepted(
    barnabas: Call, tool: Call, topic: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "barnabas.cli.framework.connecting.BROKER_PORT", int(places.server.rpartition(":")[2])
    )
    result = barnabas("topics", "--zookeeper", "localhost:2181", "--list", "--topic", topic)
    assert (result.code, result.out) == (0, f"{topic}\n")
    assert result.err.count("\n") == 1


def test_an_old_broker_list_is_accepted(barnabas: Call, places: Places, topic: str) -> None:
    result = barnabas("get-offsets", "--broker-list", places.server, "--topic", topic)
    assert (result.code, result.out) == (0, f"{topic}:0:0\n{topic}:1:0\n")


# Single tools -----------------------------------------------------------------------------------------------


def test_a_topic_is_described_by_its_id(tool: Call, topic: str) -> None:
    by_name = tool("topics", "--describe", "--topic", topic).out
    topic_id = by_name.split("TopicId: ")[1].split("\t")[0]
    by_id = tool("topics", "--describe", "--topic-id", topic_id)
    # By id another request is used, which does not return eligible leaders.
    assert by_id.out == by_name.replace("Elr: \tLastKnownElr: ", "Elr: N/A\tLastKnownElr: N/A")


def test_partitions_come_in_pages_and_nothing_is_lost(tool: Call, topic: str) -> None:
    all_at_once = tool("topics", "--describe", "--topic", topic)
    one_by_one = tool("topics", "--describe", "--topic", topic, "--partition-size-limit-per-response", "1")
    assert one_by_one.out == all_at_once.out
    assert one_by_one.out.count("Partition: ") == 2


def test_all_options_of_a_broker_are_shown_with_their_sources(tool: Call) -> None:
    result = tool("configs", "--describe", "--broker", "1", "--all")
    lines = result.out.splitlines()
    assert lines[0] == "All configs for broker 1 are:"
    assert len(lines) > 200
    assert "  node.id=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:node.id=1}" in lines


def test_loggers_of_a_broker_are_shown_and_set(tool: Call) -> None:
    before = tool("configs", "--describe", "--broker-logger", "1")
    assert before.out.startswith("Dynamic configs for broker-logger 1 are:\n")
    name = before.out.splitlines()[1].split("=")[0].strip()
    assert tool("configs", "--alter", "--broker-logger", "1", "--add-config", f"{name}=ERROR").code == 0
    after = tool("configs", "--describe", "--entity-type", "broker-loggers", "--entity-name", "1")
    assert f"  {name}=ERROR sensitive=false synonyms={{}}" in after.out.splitlines()
    assert tool("configs", "--alter", "--broker-logger", "1", "--delete-config", name).code == 0


def test_a_password_is_never_printed(tool: Call) -> None:
    result = tool("configs", "--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=passwordsecret")
    assert result.code == Exit.USAGE
    assert "secret" not in result.err


def test_records_are_deleted(tool: Call, topic: str, places: Places, tmp_path: Path) -> None:
    with Producer({"bootstrap.servers": places.server}) as producer:
        for _ in range(5):
            producer.send(topic, b"x", partition=0)
        producer.flush()
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}]}), "utf-8")
    result = tool("delete-records", "--offset-json-file", str(file))
    assert result.out.splitlines()[-1] == f"partition: {topic}-0\tlow_watermark: 3"
    with Admin({"bootstrap.servers": places.server}) as admin:
        assert admin.list_offsets({TopicPartition(topic, 0): -2})[TopicPartition(topic, 0)].offset == 3


def test_a_malformed_file_is_refused_in_one_line(tool: Call, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    for text, fault in (
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "the field 'offset' is missing"),
        (
            '{"partitions": [{"topic": 1, "partition": 0, "offset": 1}]}',
            "the field 'topic' has the wrong type",
        ),
        ('{"partitions": ["t"]}', "has an element of the wrong type"),
        ("[]", "an object with the field 'version' is expected"),
    ):
        file.write_text(text, "utf-8")
        result = tool("delete-records", "--offset-json-file", str(file))
        assert result.code == Exit.USAGE
        assert fault in result.err
        assert result.err.count("\n") == 1


def test_acls_are_removed_when_the_user_confirms(
    tool: Call, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = ("--add", "--allow-principal", "User:a", "--operation", "read", "--topic", topic)
    assert tool("acls", *grant).code == 0
    for answer, left in (("n\n", 1), ("y\n", 0)):
        monkeypatch.setattr("sys.stdin", StringIO(answer))
        asked = tool("acls", "--remove", "--topic", topic)
        assert asked.code == 0
        assert "Are you sure you want to delete all ACLs" in asked.err
        assert tool("acls", "--list", "--topic", topic).out.count("principal=User:a") == left


def test_acls_stay_without_confirmation(tool: Call, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(""))
    result = tool("acls", "--remove", "--topic", topic)
    assert result.code == Exit.USAGE
    assert "--force" in result.err


# Moves between folders --------------------------------------------------------------------------------------


def test_a_replica_moves_to_another_folder(tool: Call, topic: str, places: Places, tmp_path: Path) -> None:
    here = folder_of(tool, topic)
    there = here.replace("first", "second") if "first" in here else here.replace("second", "first")
    file = tmp_path / "plan.json"
    part = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [there]}
    file.write_text(json.dumps({"version": 1, "partitions": [part]}), "utf-8")
    plan = ("--reassignment-json-file", str(file))
    before = tool("reassign-partitions", "--verify", *plan, "--preserve-throttles")
    assert f"Partition {topic}-0 on broker 1 is not being moved from log dir {here} to {there}." in before.out
    started = tool("reassign-partitions", "--execute", *plan, "--replica-alter-log-dirs-throttle", "100000")
    assert "The replica-alter-dir throttle limit was set to 100000 B/s" in started.out
    assert started.out.endswith(
        f"Successfully started moving log directory to {there} for replica {topic}-0 with broker 1 \n"
    )
    limit = "replica.alter.log.dirs.io.max.bytes.per.second=100000"
    assert limit in tool("configs", "--describe", "--broker", "1").out
    done = f"Reassignment of replica {topic}-0-1 completed successfully."
    while done not in (output := tool("reassign-partitions", "--verify", *plan).out):
        assert "is still in progress" in output
    assert folder_of(tool, topic) == there
    assert limit not in tool("configs", "--describe", "--broker", "1").out


def test_a_folder_that_a_broker_does_not_have_is_refused(tool: Call, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    part = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["/no/such/folder"]}
    file.write_text(json.dumps({"version": 1, "partitions": [part]}), "utf-8")
    result = tool("reassign-partitions", "--execute", "--reassignment-json-file", str(file))
    assert result.code == Exit.NOT_FOUND
    assert f"Failed to alter dir for {topic}-0-1" in result.err
