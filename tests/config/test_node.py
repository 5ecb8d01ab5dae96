"""A node's configuration as a whole: what Apache Kafka's KafkaConfig accepts and rejects."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError, Mode
from barnabas.config.node.node import Node, mode_of, read_node
from barnabas.config.node.quorum import Address

from .recorded import recorded

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}
BROKER_ONLY = COMBINED | {"process.roles": "broker", "node.id": "2", "listeners": "PLAINTEXT://:9092"}
CONTROLLER_ONLY = COMBINED | {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
ZOOKEEPER = {"broker.id": "0", "zookeeper.connect": "localhost:2181"}


def refusal(given: dict[str, str]) -> str | None:
    try:
        read_node(given)
    except ConfigError as error:
        return error.message
    return None


def test_nodes_are_accepted_and_rejected_as_by_apache_kafka() -> None:
    # M-C1, M-J1: `ours` is recorded where our message or behaviour differs on purpose.
    cases = recorded("rules")["nodes"]
    assert len(cases) > 200
    for case in cases:
        assert refusal(case["given"]) == case.get("ours", case["kafka"]), case["given"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        pytest.param(
            COMBINED | {"node.id": "2"},
            "If process.roles contains the 'controller' role, the node id 2 must be included in the set of voters "
            "controller.quorum.voters=Set(1)",
            id="a controller that is not among the voters",
        ),
        pytest.param(
            BROKER_ONLY | {"node.id": "1"},
            "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of "
            "voters controller.quorum.voters=Set(1)",
            id="a broker-only node listed as a voter",
        ),
        pytest.param(
            COMBINED | {"controller.quorum.voters": ""},
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers.",
            id="neither voters nor bootstrap servers",
        ),
        pytest.param(
            COMBINED | {"process.roles": "broker,observer"},
            "Invalid value observer for configuration process.roles: String must be one of: broker, controller",
            id="an unknown role",
        ),
    ],
)
def test_roles_that_are_rejected(given: dict[str, str], line: str) -> None:
    # M-C1
    assert refusal(given) == line


def test_roles_and_their_consequences() -> None:
    # M-C1
    both, broker, controller = read_node(COMBINED), read_node(BROKER_ONLY), read_node(CONTROLLER_ONLY)
    assert (both.is_broker, both.is_controller) == (True, True)
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert both.node_id == 1
    assert both.voters == {1: Address("localhost", 9093)}
    assert [str(end) for end in both.listeners.controllers] == ["CONTROLLER://:9093"]
    assert [str(end) for end in both.listeners.advertised_to_clients] == ["PLAINTEXT://:9092"]
    assert both.listeners.inter_broker_name == "PLAINTEXT"


def test_a_dynamic_quorum_needs_no_voters() -> None:
    # M-C1
    given = {key: value for key, value in COMBINED.items() if key != "controller.quorum.voters"}
    node = read_node(given | {"controller.quorum.bootstrap.servers": "a:1, [::1]:2"})
    assert node.voters == {}
    assert node.bootstrap_servers == (Address("a", 1), Address("::1", 2))


def test_a_file_without_roles_means_zookeeper_mode() -> None:
    # M-C1
    node = read_node(ZOOKEEPER)
    assert node.mode is Mode.ZOOKEEPER
    assert node.is_broker
    assert not node.is_controller
    assert node.settings["log.segment.bytes"] == 2**30
    assert mode_of({"process.roles": " "}) is Mode.ZOOKEEPER
    assert mode_of(COMBINED) is Mode.KRAFT


def test_the_two_names_of_a_nodes_id() -> None:
    # M-J1
    given = {key: value for key, value in COMBINED.items() if key != "node.id"}
    assert read_node(given | {"broker.id": "1"}).settings["node.id"] == 1
    assert read_node(COMBINED).settings["broker.id"] == 1
    assert (
        refusal(COMBINED | {"broker.id": "7"}) == "You must set `node.id` to the same value as `broker.id`."
    )


def test_log_directories() -> None:
    # M-J1
    def folders(**given: str) -> Node:
        return read_node(COMBINED | {key.replace("_", "."): value for key, value in given.items()})

    assert folders().log_dirs == ("/tmp/kafka-logs",)
    assert folders(log_dir="/a").log_dirs == ("/a",)
    assert folders(log_dir="/a", log_dirs="/b, /c,").log_dirs == ("/b", "/c")
    assert folders(log_dirs="/b,/c").metadata_log_dir == "/b"
    assert folders(log_dirs="/b", metadata_log_dir="/m").metadata_log_dir == "/m"


def test_advertised_listeners() -> None:
    # M-J1
    node = read_node(COMBINED | {"advertised.listeners": "PLAINTEXT://worker1:9092"})
    assert [str(end) for end in node.listeners.advertised_to_clients] == ["PLAINTEXT://worker1:9092"]
    assert [str(end) for end in node.listeners.advertised_controllers] == ["CONTROLLER://:9093"]
    advertised = read_node(COMBINED | {"advertised.listeners": "PLAINTEXT://w:1,CONTROLLER://[::1]:2"})
    assert [str(end) for end in advertised.listeners.advertised_controllers] == ["CONTROLLER://[::1]:2"]


def test_a_port_is_shared_only_by_one_ipv4_and_one_ipv6_address() -> None:
    shared = COMBINED | {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT"
    }
    two = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092"
    assert refusal(shared | {"listeners": two}) is None
    assert "one needs to be IPv4" in str(refusal(shared | {"listeners": f"{two},EXTRA://:9092"}))
    assert "exactly one listener" in str(refusal(shared | {"listeners": f"{two},EXTRA://10.0.0.1:9092"}))


def test_an_error_says_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        read_node(COMBINED | {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,INTERNAL://:9094"})
    assert "(allowed: a name in listener.security.protocol.map: CONTROLLER, PLAINTEXT" in str(caught.value)
    with pytest.raises(ConfigError, match="allowed: -1 to 1000"):
        read_node(ZOOKEEPER | {"broker.id": "1001"})


def test_unknown_options_log_a_warning() -> None:
    # M-J1
    node = read_node(COMBINED | {"log.retention.hour": "5"})
    assert any("log.retention.hour is not known" in line for line in node.warnings)
