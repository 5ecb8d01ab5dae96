"""cluster, features, metadata-quorum, transactions, broker-api-versions beyond the recorded sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.broker_api_versions import lines_of, node_text
from barnabas.cli.framework.exits import Exit
from barnabas.client.model import Node
from barnabas.protocol.schema import Versions
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.conftest import Call
from tests.cli.sessions.replay import own_broker
from tests.cli.sessions.sessions import Places
from tests.verify.answers.asks.txn import in_txn
from tests.verify.answers.broker_ask import RawClient

TOOLS = ("cluster", "features", "metadata-quorum", "transactions")
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
# A hanging transaction: its producer is unknown to any coordinator.
LOST_ID = 4_242


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """A broker that accepts transactions unknown to any coordinator, as brokers before KIP-890 did."""
    settings = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "1",
    }
    with quick_folder() as folder, own_broker(folder, settings) as found:
        yield found


@pytest.fixture
def tool(barnabas: Call, places: Places) -> Any:
    """`tool("features", "describe")`: a command of a tool, against the broker."""

    def run(name: str, command: str, *arguments: str) -> Any:
        return barnabas(name, command, "--bootstrap-server", places.server, *arguments)

    return run


# Commands and flags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOOLS)
def test_without_arguments_the_usage_is_printed_on_stderr(barnabas: Call, name: Any) -> None:
    result = barnabas(name)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert result.err.startswith(f"usage: barnabas {name} [OPTIONS] COMMAND [OPTIONS]\n")
    shown = barnabas(name, "--help")
    assert (shown.code, shown.out) == (0, result.err)
    for flag in ("--version", "-v"):
        assert barnabas(name, flag).out.startswith("barnabas ")


@pytest.mark.parametrize("name", TOOLS)
def test_a_missing_or_unknown_subcommand_is_reported_in_one_line(barnabas: Call, name: Any) -> None:
    flag = "-b" if name == "cluster" else "--bootstrap-server"
    none = barnabas(name, flag, "localhost:9092")
    assert none.code == Exit.USAGE
    assert none.err.startswith(f"barnabas {name}: no command given, expected one of ")
    wrong = barnabas(name, flag, "localhost:9092", "descrieb")
    assert wrong.code == Exit.USAGE
    assert wrong.err.startswith(f"barnabas {name}: unknown command descrieb")
    assert wrong.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["cluster", "cluster-id"], "--bootstrap-server or --bootstrap-controller must be specified"),
        (["features", "describe"], "--bootstrap-server or --bootstrap-controller must be specified"),
        (["metadata-quorum", "describe", "--status"], "--bootstrap-server or --bootstrap-controller"),
        (["transactions", "list"], "--bootstrap-server must be specified"),
        (["cluster", "unregister", "-b", "h:1"], "--id"),
        (["features", "--bootstrap-server", "h:1", "feature-dependencies"], "--feature"),
        (["metadata-quorum", "remove-controller", "--controller-id", "7"], "--controller-directory-id"),
        (["transactions", "--bootstrap-server", "h:1", "describe"], "--transactional-id"),
        (["transactions", "--bootstrap-server", "h:1", "abort", "--topic", "t"], "--partition"),
        (["transactions", "--bootstrap-server", "h:1", "describe-producers"], "--topic, --partition"),
        (["transactions", "--bootstrap-server", "h:1", "forceTerminateTransaction"], "--transactionalId"),
        (["transactions", "list", "--duration-filter", "x"], "'x' is not a whole number"),
        (["cluster", "cluster-id", "-b", "h:1", "-C", "h:2"], "cannot both be given"),
        (["broker-api-versions", "--command-config", "f"], "--bootstrap-server must be specified"),
        (["transactions", "find-hanging", "--bootstrap-server", "h:1", "--partition", "1", "--broker-id", "1"],
         "The --partition argument requires --topic to be provided"),
    ],
)  # fmt: skip
def test_missing_flags_are_named(barnabas: Call, words: list[str], missing: str) -> None:
    result = barnabas(*words)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert missing in result.err
    assert result.err.count("\n") == 1


def test_shared_flags_may_precede_or_follow_the_subcommand(barnabas: Call, places: Places) -> None:
    before = barnabas("features", "--bootstrap-server", places.server, "describe")
    after = barnabas("features", "describe", "--bootstrap-server", places.server)
    assert (before.code, after.code) == (0, 0)
    assert before.out.splitlines()[0].rpartition("\t")[0] == after.out.splitlines()[0].rpartition("\t")[0]


@pytest.mark.parametrize(
    "words", [["cluster", "cluster-id"], ["features", "describe"], ["broker-api-versions"], ["transactions", "list"]]
)  # fmt: skip
def test_an_unreachable_cluster_is_one_line_and_exit_code_3(
    barnabas: Call, tmp_path: Path, words: list[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n", "utf-8")
    flag = "--config" if words[0] == "cluster" else "--command-config"
    result = barnabas(*words, "--bootstrap-server", "nowhere.invalid:1", flag, str(config))
    assert (result.code, result.out) == (Exit.UNREACHABLE, "")
    assert result.err.count("\n") == 1


# Nodes and APIs ---------------------------------------------------------------------------------------------


def test_apis_that_one_side_does_not_know_are_shown() -> None:
    lines = lines_of({0: Versions(0, 99), 999: Versions(3, 4), 1: Versions(90, 99)})
    assert lines[0] == "\tProduce(0): 0 to 99 [usable: 13]"
    assert lines[1] == "\tFetch(1): 90 to 99 [usable: UNSUPPORTED]"
    assert "\tListOffsets(2): UNSUPPORTED" in lines
    assert lines[-1] == "\tUNKNOWN(999): 3 to 4"
    assert node_text(Node(1, "h", 9092, "r1", True)) == "h:9092 (id: 1 rack: r1 isFenced: true)"


def test_the_old_bootstrap_flag_is_accepted_with_a_warning(barnabas: Call, places: Places) -> None:
    result = barnabas("broker-api-versions", "--broker-list", places.server)
    assert result.code == 0
    assert result.err == "barnabas broker-api-versions: --broker-list is the old name of --bootstrap-server\n"


# Features ---------------------------------------------------------------------------------------------------


def test_a_release_sets_the_levels_of_all_features(tool: Call) -> None:
    """Also the quorum's: a static one can become dynamic (KIP-853)."""
    result = tool("features", "upgrade", "--release-version", "4.1", "--dry-run")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "eligible.leader.replicas.version can be upgraded to 1.",
        "group.version can be upgraded to 1.",
        "kraft.version can be upgraded to 1.",
        "metadata.version can be upgraded to 27.",
        "transaction.version can be upgraded to 2.",
    ]


def test_unsafe_changes_the_requested_upgrade_type(tool: Call) -> None:
    refused = tool("features", "downgrade", "--metadata", "3.4", "--unsafe", "--dry-run")
    safe = tool("features", "downgrade", "--metadata", "3.4", "--dry-run")
    assert "Unsafe metadata downgrade is not supported" in refused.err
    assert "Unsafe" not in safe.err


# The quorum -------------------------------------------------------------------------------------------------


def controller_file(folder: Path, **changes: str | None) -> Path:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    meta = f"version=1\ncluster.id={CLUSTER}\nnode.id=7\ndirectory.id=JEXY6aqzQY-32P5TStzaFg\n"
    (data / "meta.properties").write_text(meta, "utf-8")
    given: dict[str, str | None] = {
        "process.roles": "controller",
        "node.id": "7",
        "listeners": "CONTROLLER://:9093,OTHER://[::1]:9094",
        "controller.listener.names": "CONTROLLER,OTHER",
        "log.dirs": f"{data},elsewhere",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    path = folder / "controller.properties"
    path.write_text(
        "".join(f"{name}={value}\n" for name, value in given.items() if value is not None), "utf-8"
    )
    return path


def test_a_controller_is_added_from_its_file(tool: Call, tmp_path: Path) -> None:
    path = str(controller_file(tmp_path))
    result = tool("metadata-quorum", "add-controller", "--command-config", path, "--dry-run")
    assert result.code == 0
    assert result.out == (
        "DRY RUN of adding controller 7 with directory id JEXY6aqzQY-32P5TStzaFg and endpoints:"
        " CONTROLLER://localhost:9093, OTHER://[::1]:9094\n"
    )
    # Without --dry-run the request is sent to the cluster, whose static voters cannot change.
    asked = tool("metadata-quorum", "add-controller", "--command-config", path)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node_id": None}, "node.id not found in configuration file."),
        ({"node_id": "-1"}, "node.id was negative in configuration file."),
        ({"node_id": "x"}, "which is not a number."),
        ({"process_roles": "broker"}, "process.roles did not contain 'controller'"),
        ({"log_dirs": None}, "Neither metadata.log.dir nor log.dirs were found."),
        ({"log_dirs": "nowhere"}, "Unable to read meta.properties from nowhere"),
        ({"controller_listener_names": None}, "controller.listener.names was not found."),
        ({"controller_listener_names": "THIRD"}, "Cannot find information about controller listener name: THIRD"),
        ({"listeners": "nonsense"}, "is not NAME://HOST:PORT"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_that_of_a_controller_is_refused(
    tool: Call, tmp_path: Path, changes: dict[str, None] | dict[str, str], words: str
) -> None:
    path = str(controller_file(tmp_path, **changes))
    result = tool("metadata-quorum", "add-controller", "--command-config", path, "--dry-run")
    assert result.code != 0
    assert words in result.err
    assert result.err.count("\n") == 1


def test_removing_a_voter_sends_a_request(tool: Call) -> None:
    result = tool("metadata-quorum", "remove-controller", "-i", "7", "-d", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1


# Transactions -----------------------------------------------------------------------------------------------


def test_a_transaction_that_hangs_is_found_and_aborted(barnabas: Call, tool: Call, places: Places) -> None:
    topics = ("topics", "--bootstrap-server", places.server, "--create", "--topic", "ledger")
    assert barnabas(*topics, "--partitions", "2").code == 0
    raw_client = RawClient(int(places.server.rpartition(":")[2]), 0.05)
    part = {"index": 0, "records": in_txn(LOST_ID, 0, 0, "hangs")}
    answer = raw_client.one(
        "Produce",
        9,
        transactional_id="lost",
        acks=-1,
        timeout_ms=9000,
        topic_data=[{"name": "ledger", "partition_data": [part]}],
    )
    raw_client.close()
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer

    def hanging(*where: str) -> list[list[str]]:
        found = tool("transactions", "find-hanging", *where)
        assert found.code == 0
        return [line.split()[:6] for line in found.out.splitlines()[1:]]

    row = ["ledger", "0", str(LOST_ID), "0", "-1", "0"]
    for where in (
        ("--topic", "ledger"),
        ("--topic", "ledger", "--partition", "0"),
        ("--broker-id", "1"),
        ("--topic", "ledger", "--broker-id", "1", "--max-transaction-timeout", "1"),
    ):
        assert hanging(*where) == [row], where
    assert hanging("--topic", "ledger", "--partition", "1") == []
    assert hanging("--topic", "ledger", "--max-transaction-timeout", str(2**31 - 1)) == []
    abort = ("--topic", "ledger", "--partition", "0", "--producer-id", str(LOST_ID), "--producer-epoch", "0")
    assert tool("transactions", "abort", *abort, "--coordinator-epoch", "-1").code == 0
    assert hanging("--broker-id", "1") == []


def test_a_missing_partition_or_broker_is_reported(tool: Call) -> None:
    result = tool("transactions", "find-hanging", "--topic", "nowhere")
    assert result.code == Exit.NOT_FOUND
    assert result.err.startswith("Failed to describe 1 topics: ")
    assert result.err.count("\n") == 1
