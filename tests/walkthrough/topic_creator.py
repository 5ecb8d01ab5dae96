"""Creates topics without a pause, and looks for what was lost or done twice."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

from barnabas.base.errors import ErrorCode
from barnabas.client.errors import KafkaError
from tests.walkthrough.nodes import Cluster, barnabas, create, eventually

# Answered requests before the next fault.
BETWEEN_FAULTS = 15


class TopicCreator(threading.Thread):
    """Creates one topic after the other, and notes the answers."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.created: list[str] = []
        self.uncertain: list[str] = []
        self.refused: list[KafkaError] = []
        self._cluster = cluster
        self._is_stopped = False

    def run(self) -> None:
        number = 0
        brokers = [node.id for node in self._cluster.nodes.values() if node.is_broker]
        with self._cluster.admin(*brokers) as admin:
            while not self._is_stopped:
                name = f"topic-{number}"
                number += 1
                try:
                    error = create(admin, name)
                except KafkaError as raised:
                    error = raised
                if error is None:
                    self.created.append(name)
                elif error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    # The broker that had forwarded the request was killed; the client sent it again.
                    self.uncertain.append(name)
                else:
                    self.refused.append(error)

    def stop(self) -> None:
        self._is_stopped = True
        self.join()

    def wait_for_more(self) -> None:
        enough = len(self.created) + BETWEEN_FAULTS
        eventually(lambda: len(self.created) >= enough, "no topic was created any more")


def created_once(cluster: Cluster, names: set[str]) -> None:
    """The metadata log of each node has one record of each topic."""
    for node in cluster.nodes.values():
        log = node.data / "__cluster_metadata-0" / "00000000000000000000.log"

        def recorded(log: Path = log) -> list[str]:
            dumped = barnabas("dump-log", "--cluster-metadata-decoder", "--files", str(log)).stdout
            payloads = re.findall(r"payload: (\{.*\"TOPIC_RECORD\".*\})", dumped)
            return sorted(json.loads(payload)["data"]["name"] for payload in payloads)

        assert eventually(lambda: (found := recorded()) == sorted(names) and found) == sorted(names)
