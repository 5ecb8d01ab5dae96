"""Znodes that older tools wrote are read; what cannot be read raises one error, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.broker.modes.zookeeper.znodes import acls, admin, broker_ids, cluster, configs, topics
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.metadata.cluster import Endpoint
from barnabas.metadata.scram import ScramMechanism

Decode = Callable[[str, bytes | None], object]
DECODERS: list[Decode] = [
    broker_ids.decode_broker,
    topics.decode_topic,
    topics.decode_state,
    cluster.decode_controller,
    cluster.decode_controller_epoch,
    cluster.decode_cluster_id,
    cluster.decode_features,
    cluster.decode_producer_ids,
    configs.decode_change,
    admin.decode_reassignment,
    admin.decode_partitions,
    admin.decode_log_dir_event,
    acls.decode_acl_change,
]
WRONG = [
    b"\xff\xfe",
    b"{",
    b"[]",
    b'{"partitions":3,"features":3,"version":"x","acls":1}',
    b"[" * 100_000,
]
# Of topics, and of requests for partitions.
ODD = [
    b'{"partitions":{"x":[1]},"version":1}',
    b'{"partitions":{"0":[1.5]},"version":1}',
    b'{"partitions":{"0":[99999999999]},"version":1}',
    b'{"partitions":[{"topic":1,"partition":"a"}]}',
]
WRONG_BROKERS = [
    b'{"version":2,"endpoints":["nonsense"]}',
    b'{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"ROT13"}}',
    b'{"version":2,"endpoints":["PLAINTEXT://h:99999"]}',
    b'{"version":0,"host":"h","port":1}',
]


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
@pytest.mark.parametrize("data", WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_read_is_one_kind_of_error(decode: Decode, data: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match="the znode /some/path cannot be read: "):
        decode("/some/path", data)


@pytest.mark.parametrize("data", ODD, ids=range(len(ODD)))
def test_wrong_topics_and_requests(data: bytes) -> None:
    for decode in (topics.decode_topic, admin.decode_reassignment, admin.decode_partitions):
        with pytest.raises(MalformedZnodeError):
            decode("/", data)


@pytest.mark.parametrize("data", WRONG_BROKERS, ids=range(len(WRONG_BROKERS)))
def test_wrong_brokers(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        broker_ids.decode_broker("/", data)


def test_brokers_of_all_versions() -> None:  # M-B2
    first = b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"7"}'
    assert broker_ids.decode_broker("/", first).endpoints == (Endpoint("PLAINTEXT", "h", 9092, 0),)
    second = b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://[::1]:1","SSL://h:2"]}'
    assert broker_ids.decode_broker("/", second).endpoints == (
        Endpoint("PLAINTEXT", "::1", 1, 0),
        Endpoint("SSL", "h", 2, 1),
    )
    fifth = (
        b'{"features":{"f":{"min_version":1,"max_version":3}},'
        b'"listener_security_protocol_map":{"OUT":"SASL_SSL"},"endpoints":["OUT://h:3"],"rack":"r",'
        b'"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"1"}'
    )
    found = broker_ids.decode_broker("/", fifth)
    assert found.rack == "r"
    assert found.features == {"f": (1, 3)}
    assert found.endpoints == (Endpoint("OUT", "h", 3, 3),)
    # Without a plaintext listener the oldest clients are told nothing.
    assert found.encode() == fifth


def test_other_older_versions() -> None:  # M-B2
    assert topics.decode_topic("/", b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}').partitions == {
        0: topics.Assignment((1, 2)),
        1: topics.Assignment((2,)),
    }
    change = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert configs.decode_change("/", change) == "topics/t"
    features = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert cluster.decode_features("/", features) == cluster.Features({"f": 2}, 0)
    assert configs.decode_configs("/", None) == {}
    assert acls.decode_acls("/", b"") == []


def test_many_partitions_are_in_the_order_of_scala() -> None:
    """Seen of Apache Kafka: a hash map of a growing number of buckets."""
    assigned = {number: topics.Assignment((1,)) for number in range(12)}
    text = topics.TopicAssignment(None, assigned).encode().decode()
    order = [int(part.split('"')[1]) for part in text.split('"partitions":{')[1].split("}")[0].split(",")]
    assert sorted(order) == list(range(12))
    assert topics.decode_topic("/", text.encode()).partitions == assigned


def test_scram_credentials() -> None:
    text = "salt=MTI=,stored_key=AAAA,server_key=BBBB,iterations=4096"
    found = configs.decode_scram("/", "alice", ScramMechanism.SCRAM_SHA_256, text)
    assert configs.encode_scram(found) == text
    with pytest.raises(MalformedZnodeError, match="SCRAM-SHA-256 credential is malformed"):
        configs.decode_scram("/", "alice", ScramMechanism.SCRAM_SHA_256, "salt=!")
