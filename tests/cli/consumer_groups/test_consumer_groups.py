"""consumer-groups and groups beyond the recorded sessions: streams, exit codes, lags, times, plans."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.consumer_groups.plans import csv_of, read_plans
from barnabas.cli.consumer_groups.times import duration_ms, moment_ms
from barnabas.cli.framework import connecting
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.conftest import Call, CommandResult
from tests.cli.sessions.actors import Actors
from tests.cli.sessions.replay import own_broker
from tests.cli.sessions.sessions import Places
from tools.ports import free_ports

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
# An upper bound: members usually settle much faster.
PATIENCE_S = 120
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with quick_folder() as folder, own_broker(folder, {"offsets.topic.num.partitions": "1"}) as found:
        yield found


@pytest.fixture
def tool(barnabas: Call, places: Places) -> Any:
    """Run consumer-groups against the broker."""

    def run(*arguments: str) -> Any:
        return barnabas("consumer-groups", "--bootstrap-server", places.server, *arguments)

    return run


@pytest.fixture
def actors(places: Places) -> Iterator[Actors]:
    with Actors(places.server) as actors:
        yield actors


@pytest.fixture
def topic(barnabas: Call, places: Places) -> str:
    name = f"orders-{next(_numbers)}"
    result = barnabas("topics", "--bootstrap-server", places.server, "--create", "--topic", name)
    assert result.code == 0
    return name


def rows(result: CommandResult, *columns: int) -> list[list[str]]:
    table = [line.split() for line in result.out.splitlines() if line]
    return [[row[column] for column in columns] for row in table[1:]]


# Describing -------------------------------------------------------------------------------------------------


@pytest.mark.trap
def test_the_lag_counts_only_existing_records(tool: Call, actors: Actors, places: Places, topic: str) -> None:
    """Trap 23: lag is max(HW - max(committed, log start), 0)."""
    actors.act(f"& produce {topic} 0 10")
    actors.act(f"& commit early {topic}:0=2")
    actors.act(f"& commit late {topic}:0=25")
    with Admin({"bootstrap.servers": places.server}) as admin:
        admin.delete_records({TopicPartition(topic, 0): 6}).raise_first()
    offset, end, lag = 3, 4, 5
    assert rows(tool("--describe", "--group", "early"), offset, end, lag) == [["2", "10", "4"]]
    assert rows(tool("--describe", "--group", "late"), offset, end, lag) == [["25", "10", "0"]]


def test_data_is_on_stdout_and_messages_are_on_stderr(tool: Call, actors: Actors, topic: str) -> None:
    actors.act(f"& produce {topic} 0 1")
    actors.act(f"& commit remarks {topic}:0=1")
    result = tool("--describe", "--group", "remarks")
    assert result.code == 0
    assert result.err == "\nConsumer group 'remarks' has no active members.\n"
    assert result.out.splitlines()[1].startswith("GROUP ")


def test_a_member_without_a_commit_has_no_lag_to_show(tool: Call, actors: Actors, topic: str) -> None:
    actors.act(f"& join c-quiet group.id=quiet topic={topic} enable.auto.commit=false")
    assert rows(tool("--describe", "--group", "quiet"), 3, 5) == [["-", "-"]]
    described = tool("--describe", "--group", "quiet", "--timeout", "120000")
    assert described.code == 0


def test_members_with_the_classic_protocol_are_distinguished(tool: Call, actors: Actors, topic: str) -> None:
    """A group that migrates from one protocol to the other (KIP-848)."""
    actors.act(f"& join c-old group.id=mixed topic={topic}")
    assert "UPGRADED" not in mixed_members(tool)
    actors.act(f"& join c-new group.id=mixed topic={topic} group.protocol=consumer assigned=no")
    deadline = time.monotonic() + PATIENCE_S
    while "UPGRADED" not in (out := mixed_members(tool)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert out.splitlines()[1].endswith("TARGET-ASSIGNMENT    UPGRADED")
    assert {(row[3], row[-1]) for row in map(str.split, out.splitlines()[2:])} == {
        ("c-old", "false"),
        ("c-new", "true"),
    }


def mixed_members(tool: Call) -> str:
    return tool("--describe", "--group", "mixed", "--members", "--verbose").out


# Setting offsets --------------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing_and_an_export_can_be_read_again(
    tool: Call, actors: Actors, places: Places, topic: str
) -> None:
    actors.act(f"& produce {topic} 0 8")
    actors.act(f"& commit plan {topic}:0=5")
    reset = ("--reset-offsets", "--group", "plan")
    exported = tool(*reset, "--topic", topic, "--to-earliest", "--export", "--dry-run")
    assert (exported.code, exported.out) == (0, f"{topic},0,0\n\n")
    assert rows(tool("--describe", "--group", "plan"), 3) == [["5"]]
    path = places.files / "exported.csv"
    path.write_text(exported.out, "utf-8")
    assert tool(*reset, "--from-file", str(path), "--execute").code == 0
    assert rows(tool("--describe", "--group", "plan"), 3) == [["0"]]


def test_a_malformed_plan_changes_nothing_and_names_the_line(tool: Call, places: Places, topic: str) -> None:
    path = places.files / "bad.csv"
    path.write_text(f"{topic},0,1\n{topic};0;1\n", "utf-8")
    result = tool("--reset-offsets", "--group", "plan", "--from-file", str(path), "--execute")
    assert result.code == Exit.USAGE
    assert result.err == f"{path}: line 2 is not [GROUP,]TOPIC,PARTITION,OFFSET: {topic};0;1\n"


def test_a_missing_partition_ends_in_time(tool: Call, topic: str) -> None:
    result = tool(
        "--reset-offsets",
        "--group",
        "nobody",
        "--topic",
        f"{topic}:9",
        "--to-earliest",
        "--dry-run",
        "--timeout",
        "500",
    )
    assert result.code != 0
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2023-11-14T22:13:20.000", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20.000+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
    ],
)
def test_times_are_in_utc_by_default(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


@pytest.mark.parametrize("text", ["2023-11-14", "yesterday", "2023-13-14T00:00:00.000", "T"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"timestamp|is not a time"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P7D", 604_800_000),
        ("p1dt1s", 86_401_000),
        ("PT0.5S", 500),
        ("PT-0.5S", -500),
        ("-PT1M", -60_000),
        ("P-1DT+1H", -82_800_000),
    ],
)
def test_durations_are_parsed_as_in_java(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H", "PT1D", "P1.5D", "PT1,2,3S"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Text cannot be parsed to a Duration"):
        duration_ms(text)


def test_plans_survive_a_round_through_csv(tmp_path: Path) -> None:
    plans = {'a,"b"': {TopicPartition("t", 1): 5}, "c": {TopicPartition("t", 0): 2**62}}
    path = tmp_path / "plan.csv"
    path.write_text(csv_of(plans, with_groups=True), "utf-8")
    assert read_plans(str(path), ()) == plans


@pytest.mark.parametrize("line", ["t,0", "t,x,1", "t,0,-1", "g,t,0,1,2", '"t,0,1', f"t,{2**31},1"])
def test_a_malformed_line_of_a_plan_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(line, "utf-8")
    with pytest.raises(CommandError):
        read_plans(str(path), ("g",))


# Connections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["consumer-groups", "groups"])
def test_an_unreachable_cluster_is_one_line_and_exit_code_3(
    barnabas: Call, tmp_path: Path, name: str
) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n", "utf-8")
    result = barnabas(
        name, "--bootstrap-server", f"localhost:{port}", "--command-config", str(config), "--list"
    )
    assert (result.code, result.out) == (Exit.UNREACHABLE, "")
    assert result.err.strip().count("\n") == 0


def test_a_denied_request_exits_with_4(barnabas: Call) -> None:
    with (
        quick_folder() as folder,
        own_broker(folder, {**AUTHORIZER, "super.users": "User:somebody"}) as closed,
    ):
        result = barnabas(
            "consumer-groups", "--bootstrap-server", closed.server, "--describe", "--group", "g"
        )
        assert result.code == Exit.DENIED
        assert "GroupAuthorizationException" in result.err
        deleted = barnabas("consumer-groups", "--bootstrap-server", closed.server, "--delete", "--group", "g")
        assert deleted.code == Exit.DENIED


def test_zookeeper_hosts_are_used_as_brokers_with_a_warning(
    barnabas: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "FIRST_CONTACT_MS", 300)
    result = barnabas("consumer-groups", "--zookeeper", "nowhere.invalid:2181/kafka", "--list")
    assert result.code == Exit.UNREACHABLE
    assert result.err.startswith(
        "barnabas consumer-groups: tools no longer use ZooKeeper:"
        " using --bootstrap-server nowhere.invalid:9092\n"
    )


def test_flags_with_one_dash_work_as_books_print_them(barnabas: Call, places: Places) -> None:
    result = barnabas("consumer-groups", "-bootstrap-server", places.server, "-list")
    assert result.code == 0


@pytest.mark.parametrize("name", ["consumer-groups", "groups"])
def test_without_arguments_the_usage_is_printed_on_stderr(barnabas: Call, name: str) -> None:
    result = barnabas(name)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert result.err.startswith(f"usage: barnabas {name}")
    assert barnabas(name, "--version").out.startswith("barnabas ")
