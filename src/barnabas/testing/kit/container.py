"""The shape of testcontainers' KafkaContainer, without a container."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.errors import KitError


class KafkaContainer:
    """For tests that were written for `testcontainers.kafka.KafkaContainer`: one broker in this process.

    with KafkaContainer() as kafka:
        run_my_application(kafka.get_bootstrap_server())

    The name of an image is accepted and not used.
    """

    def __init__(self, image: str = "", **options: object) -> None:
        self.image = image
        self._cluster = Cluster(1, options=options)

    def with_kraft(self) -> Self:
        """It has no other mode."""
        return self

    def with_env(self, key: str, value: object) -> Self:
        """As the images take options: KAFKA_NUM_PARTITIONS is num.partitions."""
        prefix, _, name = key.partition("_")
        if prefix != "KAFKA" or not name:
            raise KitError(f"{key} is no option of a broker: they are given as KAFKA_NUM_PARTITIONS")
        self._cluster.set_option(name.lower().replace("_", "."), value)
        return self

    def start(self, timeout: float | None = None) -> Self:
        """Returns when the broker serves; `timeout` is accepted and not needed."""
        self._cluster.start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """What was in the broker is gone."""
        self._cluster.stop()

    def get_bootstrap_server(self) -> str:
        """As clients want it: host:port."""
        return self._cluster.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return self._cluster.bootstrap_servers.rpartition(":")[0]

    def get_exposed_port(self, port: int = 9093) -> int:
        """Where the broker listens, whatever the port in a container would be."""
        return int(self._cluster.bootstrap_servers.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
