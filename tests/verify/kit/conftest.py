"""Both sides of the comparisons, for all of their files: to start Apache Kafka takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from barnabas.testing import Cluster
from tests.verify.kit.sides import BROKERS, OPTIONS, Apache, Kit, Side


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        apache = Apache(tmp_path_factory.mktemp("apache"), stack)
        cluster = stack.enter_context(Cluster(len(BROKERS), options=OPTIONS))
        yield {"kit": Kit(cluster), "apache": apache}
