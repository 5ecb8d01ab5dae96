"""Requests about options: described and changed, of topics, brokers, loggers, groups, client metrics."""

from __future__ import annotations

from typing import Any

from tests.verify.answers.broker_ask import Ask, ask

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(
    title: str, versions: str, kind: int, name: str, keys: list[str] | None = None, **more: Any
) -> Ask:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return ask(title, "DescribeConfigs", versions, resources=[resource], **more)


def change(
    title: str, versions: str, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> Ask:
    """IncrementalAlterConfigs of one resource; a change is (option, operation, value)."""
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return ask(title, "IncrementalAlterConfigs", versions, resources=[resource], **more)


def replace(title: str, versions: str, kind: int, name: str, **options: str | None) -> Ask:
    """AlterConfigs of one resource: options by their names with `_` for `.`."""
    validate = options.pop("validate_only", None)
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in options.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return ask(title, "AlterConfigs", versions, resources=[resource], validate_only=bool(validate))


# fmt: off
ASKS: list[Ask] = [
    # DescribeConfigs.
    describe("options of a topic", "1 3 4", TOPIC, "orders"),
    describe("options of a topic with synonyms and text", "4", TOPIC, "orders", include_synonyms=True, include_documentation=True),
    describe("options of a topic with synonyms", "1", TOPIC, "compacted", include_synonyms=True),
    describe("every option of a topic", "4", TOPIC, "optioned", include_synonyms=True),
    describe("one option of a topic", "1 4", TOPIC, "orders", ["retention.ms"]),
    describe("no option of a topic", "4", TOPIC, "orders", []),
    describe("an unknown option of a topic", "4", TOPIC, "orders", ["no.such"]),
    describe("options of no such topic", "1 4", TOPIC, "nowhere"),
    describe("options of an illegal topic", "4", TOPIC, "a/b"),
    describe("options of an empty topic", "4", TOPIC, ""),
    describe("options of this broker", "1 4", BROKER, "1"),
    describe("options of this broker with synonyms and text", "4", BROKER, "1", include_synonyms=True, include_documentation=True),
    describe("some options of this broker", "4", BROKER, "1", ["log.retention.ms", "num.partitions", "listeners", "node.id", "log.dirs", "message.max.bytes"], include_synonyms=True),
    describe("options of all brokers", "1 4", BROKER, "", include_synonyms=True),
    describe("options of another broker", "4", BROKER, "7"),
    describe("options of no broker", "4", BROKER, "one"),
    describe("loggers of all brokers", "4", LOGGER, ""),
    describe("loggers of another broker", "4", LOGGER, "7"),
    describe("loggers of no broker", "4", LOGGER, "one"),
    describe("options of a group", "4", GROUP, "readers", include_synonyms=True, include_documentation=True),
    describe("options of a group without a name", "4", GROUP, ""),
    describe("options of client metrics", "4", METRICS, "all"),
    describe("options of client metrics without a name", "4", METRICS, ""),
    describe("options of nothing known", "1 4", 99, "x"),
    describe("options of type zero", "4", 0, "x"),
    ask("options of several", "DescribeConfigs", "4", resources=[
        {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": ["cleanup.policy"]},
        {"resource_type": TOPIC, "resource_name": "nowhere", "configuration_keys": None},
        {"resource_type": BROKER, "resource_name": "1", "configuration_keys": ["num.network.threads"]}]),
    ask("options of one twice", "DescribeConfigs", "4", resources=[
        {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": ["cleanup.policy"]},
        {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": ["retention.ms"]}]),
    ask("options of none", "DescribeConfigs", "4", resources=[]),
    # IncrementalAlterConfigs of topics.
    change("set a long", "0 1", TOPIC, "orders", ("retention.ms", SET, "86400000")),
    change("set an int, a double, a truth and a list", "1", TOPIC, "orders", ("segment.bytes", SET, "2097152"), ("min.cleanable.dirty.ratio", SET, "0.7"),
           ("unclean.leader.election.enable", SET, "TRUE"), ("cleanup.policy", SET, "delete,compact")),
    change("set with spaces", "1", TOPIC, "orders", ("flush.ms", SET, " 9000 ")),
    change("set only to look", "1", TOPIC, "orders", ("flush.ms", SET, "1"), validate_only=True),
    change("delete an option", "1", TOPIC, "orders", ("unclean.leader.election.enable", DELETE, None)),
    change("delete an option that is not set", "1", TOPIC, "orders", ("preallocate", DELETE, None)),
    change("delete an unknown option", "1", TOPIC, "orders", ("no.such", DELETE, None)),
    change("subtract from a list", "1", TOPIC, "orders", ("cleanup.policy", SUBTRACT, "compact")),
    change("subtract what is not there", "1", TOPIC, "orders", ("cleanup.policy", SUBTRACT, "compact")),
    change("subtract all", "1", TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")),
    change("append to a list", "1", TOPIC, "orders", ("cleanup.policy", SET, "delete")),
    change("append what is there", "1", TOPIC, "orders", ("cleanup.policy", APPEND, "delete")),
    change("append to a throttle list", "1", TOPIC, "orders", ("leader.replication.throttled.replicas", APPEND, "0:1")),
    change("append more to a throttle list", "1", TOPIC, "orders", ("leader.replication.throttled.replicas", APPEND, "1:1,2:1")),
    change("subtract from a throttle list", "1", TOPIC, "orders", ("leader.replication.throttled.replicas", SUBTRACT, "1:1")),
    change("append to what is no list", "1", TOPIC, "orders", ("retention.ms", APPEND, "1")),
    change("subtract from what is no list", "1", TOPIC, "orders", ("retention.ms", SUBTRACT, "1")),
    change("append an illegal item", "1", TOPIC, "orders", ("cleanup.policy", APPEND, "burn")),
    change("set null", "0 1", TOPIC, "orders", ("retention.ms", SET, None)),
    change("append null", "1", TOPIC, "orders", ("cleanup.policy", APPEND, None)),
    change("an unknown operation", "1", TOPIC, "orders", ("retention.ms", 9, "1")),
    change("set one option twice", "1", TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    change("set an unknown option", "0 1", TOPIC, "orders", ("no.such", SET, "1")),
    change("set an empty option", "1", TOPIC, "orders", ("", SET, "1")),
    change("set a wrong type", "1", TOPIC, "orders", ("retention.ms", SET, "soon")),
    change("set out of range", "1", TOPIC, "orders", ("retention.ms", SET, "-2")),
    change("set too small", "1", TOPIC, "orders", ("segment.bytes", SET, "1000")),
    change("set what is no choice", "1", TOPIC, "orders", ("message.timestamp.type", SET, "Whenever")),
    change("set what is no codec level", "1", TOPIC, "orders", ("compression.gzip.level", SET, "17")),
    change("set a good and a bad one", "1", TOPIC, "orders", ("flush.ms", SET, "5000"), ("retention.ms", SET, "soon")),
    change("set what contradicts", "1", TOPIC, "orders", ("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")),
    change("set remote storage", "1", TOPIC, "orders", ("remote.storage.enable", SET, "true")),
    change("set of no such topic", "0 1", TOPIC, "nowhere", ("retention.ms", SET, "1")),
    change("set of an illegal topic", "1", TOPIC, "a/b", ("retention.ms", SET, "1")),
    change("set of an empty topic", "1", TOPIC, "", ("retention.ms", SET, "1")),
    change("set nothing", "1", TOPIC, "orders"),
    change("set of nothing known", "1", 99, "x", ("retention.ms", SET, "1")),
    ask("set of one resource twice", "IncrementalAlterConfigs", "1", resources=[
        {"resource_type": TOPIC, "resource_name": "orders", "configs": [{"name": "flush.ms", "config_operation": SET, "value": "1"}]},
        {"resource_type": TOPIC, "resource_name": "orders", "configs": [{"name": "flush.ms", "config_operation": SET, "value": "2"}]}]),
    ask("set of several", "IncrementalAlterConfigs", "1", resources=[
        {"resource_type": TOPIC, "resource_name": "old", "configs": [{"name": "flush.ms", "config_operation": SET, "value": "77"}]},
        {"resource_type": TOPIC, "resource_name": "nowhere", "configs": [{"name": "flush.ms", "config_operation": SET, "value": "77"}]}]),
    ask("set of none", "IncrementalAlterConfigs", "1", resources=[]),
    describe("options of a topic after changes", "4", TOPIC, "orders", include_synonyms=True),
    # IncrementalAlterConfigs of brokers.
    change("set for all brokers", "1", BROKER, "", ("log.retention.ms", SET, "777777777"), ("num.io.threads", SET, "7")),
    change("set for this broker", "1", BROKER, "1", ("log.segment.bytes", SET, "9000000"), ("message.max.bytes", SET, "2000000")),
    change("set for this broker only, for all", "1", BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://localhost:9")),
    change("set what cannot change", "1", BROKER, "1", ("node.id", SET, "5")),
    change("set what cannot change, for all", "1", BROKER, "", ("log.dirs", SET, "/nowhere")),
    change("set a wrong type for this broker", "1", BROKER, "1", ("num.io.threads", SET, "many")),
    change("set a wrong type for all brokers", "1", BROKER, "", ("num.io.threads", SET, "many")),
    change("set out of range for all brokers", "1", BROKER, "", ("num.io.threads", SET, "0")),
    change("set far too many threads", "1", BROKER, "", ("num.io.threads", SET, "1000")),
    change("set too few threads", "1", BROKER, "", ("num.io.threads", SET, "2")),
    change("set far too many threads for this broker", "1", BROKER, "1", ("num.io.threads", SET, "1000")),
    change("set far too many network threads", "1", BROKER, "", ("num.network.threads", SET, "1000")),
    change("set far too many network threads for a listener", "1", BROKER, "1", ("listener.name.plaintext.num.network.threads", SET, "1000")),
    change("set far too many cleaners", "1", BROKER, "", ("log.cleaner.threads", SET, "9")),
    change("set far too many fetchers", "1", BROKER, "1", ("num.replica.fetchers", SET, "9")),
    change("set far too many recoverers", "1", BROKER, "", ("num.recovery.threads.per.data.dir", SET, "99")),
    change("set far too many background threads", "1", BROKER, "", ("background.threads", SET, "99")),
    change("set an address of an unknown listener", "1", BROKER, "1", ("advertised.listeners", SET, "NOPE://localhost:9")),
    change("set an address without sense", "1", BROKER, "1", ("advertised.listeners", SET, "nonsense")),
    change("set listeners without the one in use", "1", BROKER, "1", ("listeners", SET, "OTHER://localhost:9"), validate_only=True),
    change("set a retention that contradicts", "1", BROKER, "", ("log.local.retention.ms", SET, "99999999999")),
    change("set more threads, but not too many", "1", BROKER, "", ("num.io.threads", SET, "12"), validate_only=True),
    change("set fewer bytes than cleaners need", "1", BROKER, "", ("log.cleaner.dedupe.buffer.size", SET, "1000"), validate_only=True),
    change("set a codec level for all", "1", BROKER, "", ("compression.gzip.level", SET, "9"), ("compression.type", SET, "gzip"), validate_only=True),
    change("set connections of a listener", "1", BROKER, "1", ("listener.name.plaintext.max.connections", SET, "500"), validate_only=True),
    change("append to a broker's list", "1", BROKER, "", ("log.cleanup.policy", APPEND, "compact"), validate_only=True),
    change("append to a broker's number", "1", BROKER, "", ("num.io.threads", APPEND, "1"), validate_only=True),
    change("set an unknown option for this broker", "1", BROKER, "1", ("my.own.option", SET, "x")),
    change("set for another broker", "1", BROKER, "7", ("num.io.threads", SET, "5")),
    change("set for no broker", "1", BROKER, "one", ("num.io.threads", SET, "5")),
    change("set a topic's option for a broker", "1", BROKER, "", ("retention.ms", SET, "5")),
    change("set a password for all brokers", "1", BROKER, "", ("ssl.key.password", SET, "secret")),
    describe("options of all brokers after changes", "4", BROKER, "", include_synonyms=True),
    describe("options of this broker after changes", "4", BROKER, "1", include_synonyms=True),
    describe("options of a topic after the brokers changed", "4", TOPIC, "old", include_synonyms=True),
    change("delete for all brokers", "1", BROKER, "", ("log.retention.ms", DELETE, None), ("num.io.threads", DELETE, None)),
    change("delete for this broker", "1", BROKER, "1", ("log.segment.bytes", DELETE, None), ("message.max.bytes", DELETE, None), ("my.own.option", DELETE, None)),
    # IncrementalAlterConfigs of loggers.
    change("set the root logger", "1", LOGGER, "1", ("root", SET, "INFO")),
    change("set an unknown logger", "1", LOGGER, "1", ("no.such.logger", SET, "DEBUG")),
    change("set a logger to a strange level", "1", LOGGER, "1", ("root", SET, "LOUD")),
    change("append to a logger", "1", LOGGER, "1", ("root", APPEND, "INFO")),
    change("delete the root logger's level", "1", LOGGER, "1", ("root", DELETE, None)),
    change("set loggers of all brokers", "1", LOGGER, "", ("root", SET, "INFO")),
    change("set loggers of another broker", "1", LOGGER, "7", ("root", SET, "INFO")),
    change("set loggers of no broker", "1", LOGGER, "one", ("root", SET, "INFO")),
    # IncrementalAlterConfigs of groups and of client metrics.
    change("set for a group", "1", GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000")),
    change("set a wrong value for a group", "1", GROUP, "readers", ("consumer.session.timeout.ms", SET, "1")),
    change("set an unknown option for a group", "1", GROUP, "readers", ("no.such", SET, "1")),
    change("set for a group without a name", "1", GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    describe("options of a group after changes", "4", GROUP, "readers", include_synonyms=True),
    change("set for client metrics", "1", METRICS, "all", ("interval.ms", SET, "60000"), ("metrics", SET, "org.apache.kafka.")),
    change("set a match for client metrics", "1", METRICS, "some", ("match", SET, "client_id=x.*"), ("metrics", SET, "*")),
    change("set a wrong interval for client metrics", "1", METRICS, "all", ("interval.ms", SET, "1")),
    change("set a wrong match for client metrics", "1", METRICS, "all", ("match", SET, "no pattern")),
    change("set an unknown option for client metrics", "1", METRICS, "all", ("no.such", SET, "1")),
    change("set for client metrics without a name", "1", METRICS, "", ("interval.ms", SET, "60000")),
    describe("options of client metrics after changes", "4", METRICS, "all", include_synonyms=True),
    # AlterConfigs.
    replace("replace options", "0 2", TOPIC, "orders", retention_ms="3600000", max_message_bytes="500000"),
    replace("replace options only to look", "2", TOPIC, "orders", flush_ms="1", validate_only="yes"),
    replace("replace by a bad option", "0 2", TOPIC, "orders", retention_ms="soon"),
    replace("replace by an unknown option", "2", TOPIC, "orders", no_such="1"),
    replace("replace by null", "2", TOPIC, "orders", retention_ms=None),
    replace("replace of no such topic", "0 2", TOPIC, "nowhere", retention_ms="1"),
    replace("replace of nothing known", "2", 99, "x", retention_ms="1"),
    replace("replace loggers", "2", LOGGER, "1", root="INFO"),
    replace("replace for another broker", "2", BROKER, "7", num_io_threads="5"),
    replace("replace by nothing", "2", TOPIC, "orders"),
    describe("options of a topic after replacement", "4", TOPIC, "orders", include_synonyms=True),
    # ListConfigResources.
    ask("client metrics that are set", "ListConfigResources", "0"),
    ask("resources that are set", "ListConfigResources", "1", resource_types=[]),
    ask("topics that are there", "ListConfigResources", "1", resource_types=[TOPIC]),
    ask("brokers, groups and metrics", "ListConfigResources", "1", resource_types=[BROKER, GROUP, METRICS]),
    ask("loggers", "ListConfigResources", "1", resource_types=[LOGGER]),
    ask("resources of nothing known", "ListConfigResources", "1", resource_types=[99]),
]
# fmt: on
