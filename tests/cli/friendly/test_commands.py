"""topic, produce, consume, tail, group, top, segment, doctor and completion against a broker."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly.framework import BOOTSTRAP_VARIABLE
from barnabas.client.sync import Consumer
from tests.cli.conftest import Call, CommandResult
from tests.cli.sessions.book import wait_until
from tools.raw_broker import BrokerProcess

PATIENCE_S = 120


@pytest.fixture
def feed(barnabas: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandResult]:
    """Run a command with input on stdin."""

    def call(text: str | bytes, *arguments: str) -> CommandResult:
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return barnabas(*arguments)

    return call


def rows(result: CommandResult) -> list[dict[str, object]]:
    assert result.code == Exit.OK, result.err
    return [json.loads(line) for line in result.out.splitlines()]


# Topics -----------------------------------------------------------------------------------------------------


def test_the_lifecycle_of_a_topic(barnabas: Call, topic: str) -> None:
    (made,) = rows(barnabas("topic", "create", topic, "-p", "2", "-c", "retention.ms=1000", "-o", "jsonl"))
    assert (made["topic"], made["partitions"], made["replicas"]) == (topic, 2, 1)
    again = barnabas("topic", "create", topic)
    assert (again.code, again.err.count("\n")) == (Exit.FAILED, 1)
    assert barnabas("topic", "create", topic, "--if-not-exists").code == Exit.OK
    assert (
        barnabas(
            "topic", "alter", topic, "-p", "3", "-c", "cleanup.policy=compact", "--unset", "retention.ms"
        ).code
        == 0
    )
    # A broker of Apache Kafka may respond before its own metadata has the change.
    wait_until(lambda: len(rows(barnabas("topic", "show", topic, "-o", "jsonl"))) == 3, "three partitions")
    shown = rows(barnabas("topic", "show", topic, "-o", "jsonl"))
    assert [(row["partition"], row["leader"], row["start"], row["end"]) for row in shown] == [
        (number, 1, 0, 0) for number in range(3)
    ]
    (config,) = rows(barnabas("topic", "configs", topic, "-o", "jsonl"))
    assert (config["key"], config["value"]) == ("cleanup.policy", "compact")
    assert len(rows(barnabas("topic", "configs", topic, "--all", "-o", "jsonl"))) > 20
    listed = rows(barnabas("topic", "list", f"{topic[:-1]}?", "-o", "jsonl"))
    assert topic in [row["topic"] for row in listed]
    assert barnabas("topic", "list", topic, "-o", "name").out == f"{topic}\n"
    assert barnabas("topic", "delete", topic, "--yes").code == Exit.OK
    wait_until(lambda: barnabas("topic", "show", topic).code != Exit.OK, "the topic is deleted")
    removed = barnabas("topic", "show", topic)
    assert removed.code == Exit.NOT_FOUND
    assert removed.err == (f"barnabas topic show: there is no topic {topic}; see barnabas topic list\n")
    assert barnabas("topic", "delete", topic, "--if-exists", "--yes").code == Exit.OK


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "show"),
        ("topic", "configs"),
        ("topic", "alter", "-p", "4"),
        ("topic", "alter", "-c", "retention.ms=1"),
        ("topic", "empty", "--yes"),
        ("topic", "delete", "--yes"),
        ("consume",),
        ("tail",),
        ("group", "reset", "g", "--to", "latest", "--yes", "-t"),
    ],
)
def test_a_missing_topic(barnabas: Call, topic: str, arguments: tuple[str, ...]) -> None:
    result = barnabas(*arguments, topic)
    assert (result.code, result.err.count("\n"), result.out) == (Exit.NOT_FOUND, 1, "")
    assert f"there is no topic {topic}; see barnabas topic list" in result.err


@pytest.mark.parametrize("arguments", [("show",), ("delete", "--yes")])
def test_a_missing_group(barnabas: Call, topic: str, arguments: tuple[str, ...]) -> None:
    result = barnabas("group", *arguments, topic)
    assert result.code == Exit.NOT_FOUND
    assert f"there is no group {topic}; see barnabas group list" in result.err


def test_a_topic_that_could_be_created_is_not(barnabas: Call, topic: str) -> None:
    assert barnabas("topic", "create", topic, "--dry-run").code == Exit.OK
    assert barnabas("topic", "show", topic).code == Exit.NOT_FOUND


def test_destructive_commands_require_confirmation(barnabas: Call, topic: str) -> None:
    barnabas("topic", "create", topic)
    for arguments in (("delete", topic), ("empty", topic)):
        refused = barnabas("topic", *arguments)
        assert refused.code in (Exit.USAGE, Exit.NOT_FOUND)
    refused = barnabas("topic", "delete", topic)
    assert refused.code == Exit.USAGE
    assert refused.err.splitlines()[0] == f"delete topic {topic}: 1 partition, 0 records"
    assert "give --yes" in refused.err
    looked = barnabas("topic", "delete", topic, "--dry-run")
    assert (looked.code, looked.err.splitlines()[-1]) == (Exit.OK, "nothing was done (--dry-run)")
    assert barnabas("topic", "show", topic).code == Exit.OK


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic",), "usage: barnabas topic COMMAND"),
        (("topic", "shwo", "x"), "unknown command shwo (did you mean show?)"),
        (("topic", "create", "x", "-c", "retention.ms"), "write KEY=VALUE"),
        (("topic", "alter", "x"), "nothing to change: give"),
        (("topic", "create", "x", "-p", "0"), "-p/--partitions: '0' is not a whole number from 1 to"),
        (("topic", "create", "x", "-p", "9" * 11), f"'{'9' * 11}' is not a whole number"),
        (("topic", "create", "x", "-r", "40000"), "'40000' is not a whole number from 1 to 32767"),
        (("topic", "list", "--bootstrap-servre", "x:1"), "did you mean --bootstrap-server?"),
        (("consume", "x", "--from", "soon"), "--from: 'soon' is not a position in a log"),
        (("consume", "x", "-f", "--to", "now"), "--to and --follow"),
        (("consume", "x", "-n", "-5"), "-n/--count: '-5' is not a whole number from 1 to"),
        (("tail", "x", "-n", "-5"), "-n/--count: '-5' is not a whole number from 0 to"),
        (("consume", "x", "-g", "g", "-p", "0"), "--group starts at"),
        (("group", "reset", "g"), "give the new position: --to POSITION or --by N"),
        (("group", "reset", "g", "--to", "latest", "-p", "1"), "--partition requires --topic"),
        (("produce", "x", "-H", "plain"), "--header plain: write KEY=VALUE"),
        (("produce",), "the following arguments are required: TOPIC;"),
        (("produce", "x", "-p", "-1"), "-p/--partition: '-1' is not a whole number from 0 to"),
        (("group", "reset", "g", "--by", "9" * 20), "is not a whole number"),
        (("top", "--every", "0s"), "--every must be positive"),
        (("completion", "tcsh"), "invalid choice: 'tcsh'"),
    ],
)
def test_wrong_command_lines(barnabas: Call, arguments: tuple[str, ...], message: str) -> None:
    result = barnabas(*arguments)
    assert result.code == Exit.USAGE
    assert message in result.err
    assert not result.out


@pytest.mark.parametrize(
    "arguments",
    [("topic", "list"), ("consume", "x"), ("group", "list"), ("explain", "g"), ("top",), ("produce", "x")],
)
def test_a_cluster_that_does_not_respond(barnabas: Call, arguments: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / "quick.properties"
    config.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n", "utf-8")
    result = barnabas(*arguments, "-b", "127.0.0.1:1", "--command-config", str(config))
    assert result.code == Exit.UNREACHABLE
    assert result.err.count("\n") == 1
    assert "127.0.0.1:1" in result.err


# Records ----------------------------------------------------------------------------------------------------


def test_lines_go_there_and_come_back(barnabas: Call, feed: Callable[..., CommandResult], topic: str) -> None:
    sent = feed("a:1\nb:2\nc\n", "produce", topic)
    assert sent.code == Exit.NOT_FOUND
    assert "give --create" in sent.err
    wrong = feed("a:1\nc\n", "produce", topic, "--create", "-s", ":")
    assert (wrong.code, "no ':' in the line 'c'" in wrong.err) == (Exit.FAILED, True)
    (place,) = rows(feed("b:2\n", "produce", topic, "-s", ":", "-H", "h=x", "-o", "jsonl"))
    assert place == {"topic": topic, "partition": 0, "records": 1, "first_offset": 1, "last_offset": 1}
    first, second = rows(barnabas("consume", topic, "-o", "jsonl"))
    assert (first["key"], first["value"], first["headers"]) == ("a", "1", [])
    assert (second["key"], second["value"], second["headers"]) == ("b", "2", [{"key": "h", "value": "x"}])
    assert barnabas("consume", topic, "-o", "name").out == f"{topic}-0@0\n{topic}-0@1\n"
    assert barnabas("consume", topic, "--from", "1", "-n", "5", "-o", "name").out == f"{topic}-0@1\n"
    assert barnabas("consume", topic, "--from", "-1", "-o", "name").out == f"{topic}-0@1\n"
    assert barnabas("consume", topic, "--to", "1", "-o", "name").out == f"{topic}-0@0\n"
    assert barnabas("consume", topic, "--from", "-10m", "--to", "-5m", "-o", "name").out == ""
    assert barnabas("consume", topic, "-p", "7").code == Exit.NOT_FOUND
    assert barnabas("tail", topic, "-n", "1", "--no-follow", "-o", "name").out == f"{topic}-0@1\n"


def test_produce_reads_the_output_of_consume_unchanged(
    barnabas: Call,
    feed: Callable[..., CommandResult],
    topic: str,
    fresh_name: Callable[[], str],
    bootstrap: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\x00\nplain\n\n")
    assert (
        barnabas("produce", topic, str(file), "--create", "-k", "key", "--compression", "zstd").code
        == Exit.OK
    )
    printed = barnabas("consume", topic, "-o", "jsonl").out
    copy = fresh_name()
    copied = feed(printed, "produce", copy, "--create")
    assert copied.code == Exit.OK
    assert "-i lines to send them as values" in copied.err
    again = barnabas("consume", copy, "-o", "jsonl").out
    assert again == printed.replace(topic, copy)
    # Each record goes to the topic that it names.
    assert feed(printed, "produce", "-").code == Exit.OK
    assert len(barnabas("consume", topic, "-o", "jsonl").out.splitlines()) == 6
    # And as plain lines, if requested.
    assert feed(printed, "produce", copy, "-i", "lines").code == Exit.OK
    last = rows(barnabas("consume", copy, "--from", "5", "-o", "jsonl"))
    assert last[0]["value"] == printed.splitlines()[-1]
    broken = feed('{"value": "x"}\n{"valeu": "x"}\n', "produce", copy, "-i", "jsonl")
    assert broken.code == Exit.FAILED
    assert "line 2: unknown field valeu" in broken.err


def test_a_refused_record_is_a_failure(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str
) -> None:
    assert barnabas("topic", "create", topic, "-c", "max.message.bytes=1000").code == Exit.OK
    result = feed("small\n" + "x" * 2_000 + "\n", "produce", topic, "-o", "jsonl")
    assert result.code == Exit.FAILED
    assert "1 record was not written" in result.err
    assert "Traceback" not in result.err


def test_a_stream_is_followed_until_it_is_interrupted(
    bootstrap: str, topic: str, feed: Callable[..., CommandResult]
) -> None:
    feed("1\n2\n", "produce", topic, "--create")
    command = [sys.executable, "-m", "barnabas", "tail", topic, "-n", "1", "--value-only", "-b", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        # A record that never arrives must not block the tests.
        watch = threading.Timer(PATIENCE_S, tail.kill)
        watch.start()
        assert tail.stdout.readline() == "2\n"
        feed("3\n", "produce", topic)
        assert tail.stdout.readline() == "3\n"
        tail.send_signal(2)
        _, errors = tail.communicate(timeout=PATIENCE_S)
        watch.cancel()
    assert (tail.returncode, errors) == (Exit.INTERRUPTED, "")


@pytest.mark.parametrize("flags", [("-p", "5"), ("--keep-partitions",)])
def test_a_missing_partition_is_not_waited_for(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str, flags: tuple[str, ...]
) -> None:
    barnabas("topic", "create", topic, "-p", "2")
    records = "".join(json.dumps({"partition": number, "value": "x"}) + "\n" for number in (1, 5))
    result = feed(records, "produce", topic, *flags, "-i", "jsonl", "-o", "name")
    assert result.code == Exit.NOT_FOUND
    assert result.err == f"barnabas produce: {topic} has no partition 5; it has 2, starting at 0\n"
    assert result.out == ("" if "-p" in flags else f"{topic}-1\n")


# Groups -----------------------------------------------------------------------------------------------------


@pytest.mark.trap
def test_the_lag_of_a_group_counts_no_deleted_records(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str, group: str
) -> None:
    """Trap 23: lag is max(HW − max(committed, log start), 0)."""
    feed("1\n2\n3\n4\n5\n", "produce", topic, "--create")
    assert barnabas("consume", topic, "-g", group, "-n", "1", "--value-only").code == Exit.OK
    assert barnabas("topic", "empty", topic, "--before", "4", "--yes").code == Exit.OK
    (shown,) = rows(barnabas("group", "show", group, "-o", "jsonl"))
    assert (shown["committed"], shown["end"], shown["lag"]) == (1, 5, 1)
    (listed,) = rows(barnabas("group", "list", group, "-o", "jsonl"))
    assert listed["lag"] == 1


def test_the_lifecycle_of_a_group(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str, group: str
) -> None:
    feed("1\n2\n3\n", "produce", topic, "--create")
    assert barnabas("consume", topic, "-g", group, "-n", "2", "--value-only").code == Exit.OK
    (shown,) = rows(barnabas("group", "show", group, "-o", "jsonl"))
    assert (shown["committed"], shown["end"], shown["lag"], shown["client"]) == (2, 3, 1, None)
    (listed,) = rows(barnabas("group", "list", group, "-o", "jsonl"))
    assert (listed["state"], listed["type"], listed["members"], listed["lag"]) == ("Empty", "Classic", 0, 1)
    # It continues at its committed offset.
    assert barnabas("consume", topic, "-g", group, "-o", "name").out == f"{topic}-0@2\n"
    planned = barnabas("group", "reset", group, "--to", "earliest", "--dry-run")
    assert planned.code == Exit.OK
    assert planned.err.splitlines()[0] == f"{group} {topic}-0: 3 -> 0"
    (reset,) = rows(barnabas("group", "reset", group, "--by", "-1", "--yes", "-o", "jsonl"))
    assert (reset["before"], reset["after"]) == (3, 2)
    assert barnabas("group", "delete", group, "--yes").code == Exit.OK
    assert barnabas("group", "show", group).code == Exit.NOT_FOUND
    assert barnabas("group", "reset", group, "--to", "latest", "--yes").code == Exit.NOT_FOUND


def test_a_group_with_members_is_not_moved(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str, group: str, bootstrap: str
) -> None:
    feed("1\n", "produce", topic, "--create")
    with Consumer(bootstrap_servers=bootstrap, group_id=group, client_id="busy") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        refused = barnabas("group", "reset", group, "--topic", topic, "--to", "earliest", "--yes")
        assert refused.code == Exit.FAILED
        assert "stop them first (busy)" in refused.err
        (member,) = rows(barnabas("group", "show", group, "--members", "-o", "jsonl"))
        assert (member["client"], member["host"], member["partitions"]) == (
            "busy",
            "127.0.0.1",
            [f"{topic}-0"],
        )
        assert barnabas("group", "delete", group, "--yes").code == Exit.FAILED


def test_top_shows_topics_and_groups(
    barnabas: Call, feed: Callable[..., CommandResult], topic: str, group: str
) -> None:
    feed("1\n2\n", "produce", topic, "--create")
    barnabas("consume", topic, "-g", group, "-n", "1", "--value-only")
    shown = rows(barnabas("top", "--every", "10ms", "--rows", "1000", "-o", "jsonl"))
    of_topic = next(row for row in shown if row["name"] == topic)
    of_group = next(row for row in shown if row["name"] == group)
    assert (of_topic["kind"], of_topic["records"]) == ("topic", 2)
    assert (of_group["kind"], of_group["lag"], of_group["state"]) == ("group", 1, "Empty")


# Files, the doctor, completion ------------------------------------------------------------------------------


def test_segments(
    barnabas: Call, feed: Callable[..., CommandResult], broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    feed("a:1\nb:2\n", "produce", topic, "--create", "-s", ":", "--compression", "gzip")
    folder = broker.folder / "data" / "data" / f"{topic}-0"
    (segment,) = rows(barnabas("segment", "list", str(folder), "-o", "jsonl"))
    assert (segment["base_offset"], segment["last_offset"], segment["records"], segment["faults"]) == (
        0,
        1,
        2,
        0,
    )
    file = str(segment["file"])
    (batch,) = rows(barnabas("segment", "batches", file, "-o", "jsonl"))
    assert (batch["codec"], batch["records"], batch["kind"], batch["is_valid"]) == ("gzip", 2, "data", True)
    (second,) = rows(barnabas("segment", "records", file, "--from", "1", "-o", "jsonl"))
    assert (second["topic"], second["partition"], second["key"], second["value"]) == (topic, 0, "b", "2")
    assert barnabas("segment", "records", file, "-n", "1", "-o", "name").out == f"{topic}-0@0\n"
    damaged = tmp_path / "00000000000000000000.log"
    data = bytearray(Path(file).read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data + b"\x00" * 5)
    for command in (("segment", "batches", str(damaged)), ("segment", "list", str(tmp_path))):
        result = barnabas(*command)
        assert result.code == Exit.FAILED
        assert "2 faults found" in result.err
    cut = tmp_path / "cut.log"
    cut.write_bytes(Path(file).read_bytes() + b"no batch")
    result = barnabas("segment", "records", str(cut), "-o", "jsonl")
    assert (result.code, result.out.count("\n")) == (Exit.FAILED, 2)
    assert "8 bytes at the end are not a complete batch" in result.err
    assert barnabas("segment", "list", str(tmp_path / "nowhere")).code == Exit.NOT_FOUND


def test_the_doctor_checks_a_cluster(barnabas: Call, bootstrap: str, tmp_path: Path) -> None:
    result = barnabas("doctor", "--folder", str(tmp_path), "-o", "jsonl")
    found = {row["check"]: row for row in map(json.loads, result.out.splitlines())}
    assert bootstrap in str(found["cluster"]["found"])
    assert found["cluster"]["state"] == found["log directories"]["state"] == "ok"
    assert {"leaders", "replicas", "groups"} <= found.keys()


def test_the_doctor_reports_an_unreachable_cluster(barnabas: Call, tmp_path: Path) -> None:
    config = tmp_path / "quick.properties"
    config.write_text("default.api.timeout.ms=500\n", "utf-8")
    result = barnabas("doctor", "-b", "127.0.0.1:1", "--command-config", str(config), "-o", "jsonl")
    assert result.code == Exit.FAILED
    last = json.loads(result.out.splitlines()[-1])
    assert (last["check"], last["state"]) == ("cluster", "broken")
    assert "barnabas dev" in last["advice"]


def test_completion(barnabas: Call, topic: str, group: str, feed: Callable[..., CommandResult]) -> None:
    feed("1\n", "produce", topic, "--create")
    barnabas("consume", topic, "-g", group, "--value-only")

    def offers(*words: str) -> list[str]:
        result = barnabas("completion", "reply", "--", *words)
        assert (result.code, result.err) == (Exit.OK, "")
        return result.out.splitlines()

    assert offers("explai") == ["explain"]
    assert offers("topic", "cre") == ["create"]
    assert offers("consume", "--fo") == ["--follow", "--format"]
    assert offers("consume", topic, "-o", "json") == ["json", "jsonl"]
    assert offers("topic", "show", topic[:-1])[0].startswith(topic[:-1])
    assert topic in offers("tail", "")
    assert group in offers("explain", group[:5])
    assert group in offers("consume", topic, "--group", "")
    assert topic in offers("topics", "--describe", "--topic", "")
    # bash splits words at colons and equals signs.
    host, port = os.environ[BOOTSTRAP_VARIABLE].split(":")
    assert topic in offers("tail", "-b", host, ":", port, topic[:5])
    assert topic in offers("topics", "--topic", "=", topic[:5])
    assert topic in offers("topics", "--topic", "=")
    # Errors are not printed during completion.
    assert offers("nothing", "") == offers("topic", "create", "") == []


def test_the_bash_script_passes_the_typed_words(
    barnabas: Call, bootstrap: str, topic: str, feed: Callable[..., CommandResult]
) -> None:
    feed("1\n", "produce", topic, "--create")
    script = barnabas("completion", "bash").out
    typed = f'COMP_WORDS=(barnabas tail "{topic[:-1]}"); COMP_CWORD=2; _barnabas 2>/dev/null'
    show = 'printf "%s\\n" "${COMPREPLY[@]}"'
    stand_in = f'barnabas() {{ "{sys.executable}" -m barnabas "$@"; }}'
    result = subprocess.run(
        ["bash", "-c", f"{script}\n{stand_in}\n{typed}\n{show}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert topic in result.stdout.splitlines(), result.stderr


def test_the_default_bootstrap_server(
    barnabas: Call, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a flag and without the variable: the broker that runs on this machine."""
    monkeypatch.delenv(BOOTSTRAP_VARIABLE)
    monkeypatch.setenv("BARNABAS_STATE", str(broker.folder / "state"))
    assert barnabas("topic", "list").code == Exit.OK
