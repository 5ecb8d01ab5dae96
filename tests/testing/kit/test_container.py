"""Tests that were written for a container of Apache Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.testing import KafkaContainer, KitError

TIMEOUT_S = 60.0


def test_what_testcontainers_offers_is_there() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as kafka:
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        metadata = AdminClient({"bootstrap.servers": server}).list_topics(timeout=TIMEOUT_S)
        assert len(metadata.brokers) == 1
    container = KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", 3)
    container.start(timeout=10)
    try:
        admin = AdminClient({"bootstrap.servers": container.get_bootstrap_server()})
        assert len(admin.list_topics("made", timeout=TIMEOUT_S).topics) == 1
    finally:
        container.stop()
    with pytest.raises(KitError, match="CLUSTER_ID is no option"):
        KafkaContainer().with_env("CLUSTER_ID", "x")
