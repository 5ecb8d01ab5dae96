"""default < file < cluster-wide < this broker < topic, with the sources and synonyms that DescribeConfigs
shows."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError, Mode
from barnabas.config.layers import ConfigSource, Entry, Layers, check_dynamic
from barnabas.config.node.synonyms import with_both_ids

from .recorded import recorded

STATIC = {"process.roles": "broker", "node.id": "1"}
MODES = {"kraft-4.1.0": Mode.KRAFT, "zk-3.9.1": Mode.ZOOKEEPER}


def shown(entry: Entry) -> str:
    """An entry as `kafka-configs.sh --describe --all` prints it."""

    def text(value: str | None) -> str:
        return "null" if value is None else value

    synonyms = ", ".join(f"{it.source.name}:{it.name}={text(it.value)}" for it in entry.synonyms)
    return (
        f"{entry.name}={text(entry.value)} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"
    )


@pytest.mark.trap
@pytest.mark.parametrize("cluster", MODES)
def test_described_configs_are_apache_kafkas_line_by_line(cluster: str) -> None:
    """Trap 15: DescribeConfigs complete (sources, synonyms, types, docs): Debezium, Connect and UIs need
    it."""
    case = recorded("describe")[cluster]
    static = with_both_ids(case["static"])
    layers = Layers(static, MODES[cluster]).with_cluster(case["cluster"])
    assert [shown(entry) for entry in layers.describe_topic(case["topic"])] == case["topic_lines"]
    layers = layers.with_broker(case["broker"])
    assert [shown(entry) for entry in layers.describe_broker()] == case["broker_lines"]
    assert [shown(entry) for entry in layers.describe_cluster()] == case["cluster_lines"]


def entry_of(entries: list[Entry], name: str) -> Entry:
    return next(entry for entry in entries if entry.name == name)


def test_each_layer_wins_over_those_below() -> None:
    name, theirs = "log.retention.ms", "retention.ms"
    layers = Layers(STATIC)
    assert layers.topic({})[theirs] == 604_800_000
    layers = Layers(STATIC | {name: "1"})
    assert layers.topic({})[theirs] == 1
    layers = layers.with_cluster({name: "2"})
    assert layers.topic({})[theirs] == 2
    layers = layers.with_broker({name: "3"})
    assert layers.topic({})[theirs] == 3
    assert layers.topic({theirs: "4"})[theirs] == 4
    entry = entry_of(layers.describe_topic({theirs: "4"}), theirs)
    assert [(it.source, it.name, it.value) for it in entry.synonyms] == [
        (ConfigSource.DYNAMIC_TOPIC_CONFIG, theirs, "4"),
        (ConfigSource.DYNAMIC_BROKER_CONFIG, name, "3"),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, name, "2"),
        (ConfigSource.STATIC_BROKER_CONFIG, name, "1"),
        (ConfigSource.DEFAULT_CONFIG, "log.retention.hours", "168"),
    ]
    assert layers.settings()[name] == 3


def test_a_dynamic_value_overrides_its_whole_family() -> None:
    layers = Layers(STATIC | {"log.retention.ms": "5"}).with_cluster({"log.retention.ms": "6"})
    assert layers.settings()["log.retention.ms"] == 6
    layers = Layers(STATIC | {"log.roll.hours": "1"}).with_broker({"log.roll.ms": "6"})
    assert not layers.settings().is_given("log.roll.hours")
    assert layers.topic({})["segment.ms"] == 6


def test_a_dynamic_layer_ignores_static_options_with_a_warning() -> None:
    layers = Layers(STATIC).with_cluster({"log.dirs": "/x", "listeners": "PLAINTEXT://:1"})
    layers = layers.with_broker({"log.cleaner.backoff.ms": "many"})
    settings = layers.settings()
    assert settings["log.dirs"] is None
    assert settings["listeners"] == "PLAINTEXT://:9092"
    assert settings["log.cleaner.backoff.ms"] == 15_000
    ignored = [line for line in settings.warnings if "is ignored" in line]
    assert [line.split()[3] for line in ignored] == ["log.dirs", "listeners", "log.cleaner.backoff.ms"]


@pytest.mark.parametrize(
    ("values", "per_broker", "message"),
    [
        ({"broker.id": "5"}, True, "Cannot update these configs dynamically: Set(broker.id)"),
        (
            {"ssl.keystore.location": "/k"},
            True,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "HashSet(ssl.keystore.location)"
            ),
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
        (
            {"listener.name.a.ssl.keystore.location": "/k"},
            False,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "Set(listener.name.a.ssl.keystore.location)"
            ),
        ),
        (
            {"max.connections": "-1"},
            False,
            "Invalid value -1 for configuration max.connections: Value must be at least 0",
        ),
        (
            {"leader.replication.throttled.rate": "fast"},
            True,
            "Invalid value fast for configuration leader.replication.throttled.rate: Not a number of type LONG",
        ),
    ],
)
def test_dynamic_changes_that_are_rejected(values: dict[str, str], per_broker: bool, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_dynamic(values, per_broker=per_broker)
    assert caught.value.message == message


def test_dynamic_changes_that_are_accepted() -> None:
    check_dynamic({"log.cleaner.backoff.ms": "1", "unheard.of": "x"}, per_broker=False)
    check_dynamic({"listener.name.a.max.connections": "5"}, per_broker=False)
    check_dynamic({"listener.name.a.ssl.keystore.location": "/k", "listeners": "A://:1"}, per_broker=True)
    layers = Layers(STATIC).with_broker({"leader.replication.throttled.rate": "100"})
    entry = entry_of(layers.describe_broker(), "leader.replication.throttled.rate")
    assert (entry.value, entry.type) == ("100", "LONG")


def test_secrets_and_unknown_names_show_no_value() -> None:
    layers = Layers(STATIC | {"ssl.key.password": "geheim", "my.plugin.token": "geheim"})
    entries = layers.describe_broker()
    for name in ("ssl.key.password", "my.plugin.token"):
        entry = entry_of(entries, name)
        assert entry.sensitive
        assert entry.value is None
        assert [it.value for it in entry.synonyms] == [None]
    assert entry_of(entries, "my.plugin.token").type is None
    assert "geheim" not in "".join(map(repr, entries))


def test_read_only_options_and_their_docs() -> None:
    entries = Layers(STATIC).describe_broker()
    assert entry_of(entries, "log.dirs").read_only
    assert not entry_of(entries, "log.cleaner.backoff.ms").read_only
    assert all(entry.doc for entry in entries)


def test_groups_inherit_from_the_broker() -> None:
    layers = Layers(STATIC | {"group.consumer.session.timeout.ms": "50000"})
    entries = layers.describe_group({"consumer.heartbeat.interval.ms": "6000"})
    session = entry_of(entries, "consumer.session.timeout.ms")
    assert (session.value, session.source) == ("50000", ConfigSource.DEFAULT_CONFIG)
    own = entry_of(entries, "consumer.heartbeat.interval.ms")
    assert (own.value, own.source) == ("6000", ConfigSource.GROUP_CONFIG)
    with pytest.raises(ConfigError, match="Unknown group config name: x"):
        layers.describe_group({"x": "1"})
