"""The brokers of a cluster of both kinds as clients see them: topics, leaders, ISRs, coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.verify.answers.broker_ask import Plain, RawClient
from tests.verify.quorum.mixed_cluster import wait_for

METADATA_VERSION = 9
CHANGE_TIMEOUT_MS = 30_000
PREFERRED = 0
# Of FindCoordinator.
GROUP_KEY, TRANSACTION_KEY = 0, 1
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


@dataclass
class Brokers:
    """`addresses` are those of all brokers of the cluster, by id."""

    addresses: Mapping[int, tuple[str, int]]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def ask(self, number: int, api: str, version: int, **fields: Any) -> Plain:
        """One request on a connection of its own; None if it was not answered."""
        host, port = self.addresses[number]
        client = RawClient(port, 0, host)
        try:
            answer = client.one(api, version, **fields)
        except OSError:
            return None
        finally:
            client.close()
        return None if isinstance(answer, str) else answer

    def ask_controller(self, api: str, version: int, **fields: Any) -> Plain:
        """Of the broker that Metadata names as the controller: in KRaft mode any, which passes requests on."""
        metadata = self.ask(min(self.addresses), "Metadata", METADATA_VERSION, topics=[])
        known = -1 if metadata is None else metadata["controller_id"]
        return self.ask(known, api, version, **fields) if known in self.addresses else None

    def create(self, topics: Mapping[str, int]) -> None:
        """With a replica on every broker, of which all but one must have a record."""
        wanted = [
            {
                "name": name,
                "num_partitions": count,
                "replication_factor": len(self.addresses),
                "configs": [{"name": "min.insync.replicas", "value": str(len(self.addresses) - 1)}],
            }
            for name, count in topics.items()
        ]

        def created() -> bool:
            answer = self.ask_controller("CreateTopics", 7, topics=wanted, timeout_ms=CHANGE_TIMEOUT_MS)
            return answer is not None and all(each["error_code"] in (0, 36) for each in answer["topics"])

        wait_for("the topics are created", created)
        self.await_whole("at the start")

    def await_whole(self, when: str) -> None:
        """Waits until every ISR has all brokers, and all brokers know."""
        wait_for(f"the ISRs are whole {when}", lambda: all(map(self._is_whole, self.addresses)))

    def _is_whole(self, number: int) -> bool:
        partitions = self._partitions(number)
        return partitions is not None and all(
            each["leader_id"] >= 0 and sorted(each["isr_nodes"]) == sorted(self.addresses)
            for each in partitions.values()
        )

    def _partitions(self, number: int) -> dict[tuple[str, int], Any] | None:
        answer = self.ask(number, "Metadata", METADATA_VERSION, topics=None)
        if answer is None or any(topic["error_code"] for topic in answer["topics"]):
            return None
        return {
            (topic["name"], each["partition_index"]): each
            for topic in answer["topics"]
            for each in topic["partitions"]
        }

    def lead_all(self, leader: int) -> None:
        """Waits until this broker leads every partition, and so coordinates all groups and transactions."""

        def leads() -> bool:
            known = [self._partitions(number) for number in self.addresses]
            if all(each is not None and _are_led_by(leader, each) for each in known):
                return True
            if known[0]:
                self._prefer(leader, known[0])
            return False

        wait_for(f"{leader} leads all partitions", leads)

    def _prefer(self, leader: int, partitions: Mapping[tuple[str, int], Any]) -> None:
        """Asks for the same replicas, this broker the first of them, and for its election.

        The others take turns as the second, so that without it each of them leads.
        """
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, number), each in partitions.items():
            others = sorted(set(each["replica_nodes"]) - {leader}, reverse=number % 2 == 1)
            replicas = [leader, *others]
            if replicas != each["replica_nodes"]:
                topics.setdefault(topic, []).append({"partition_index": number, "replicas": replicas})
        wanted = [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]
        limit = {"timeout_ms": CHANGE_TIMEOUT_MS}
        if wanted:
            self.ask_controller("AlterPartitionReassignments", 0, topics=wanted, **limit)
        self.ask_controller("ElectLeaders", 2, election_type=PREFERRED, topic_partitions=None, **limit)

    def move(self, topics: Iterable[str], replicas: Sequence[int]) -> None:
        """Waits until these topics have their replicas on these brokers, all in sync, and nowhere else."""
        chosen = set(topics)
        known = wait_for("broker 1 knows the topics", lambda: self._partitions(min(self.addresses)))
        wanted = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "replicas": [*replicas]}
                    for name, number in known
                    if name == topic
                ],
            }
            for topic in chosen
        ]

        def accepted() -> bool:
            fields = {"topics": wanted, "timeout_ms": CHANGE_TIMEOUT_MS}
            answer = self.ask_controller("AlterPartitionReassignments", 0, **fields)
            return answer is not None and not answer["error_code"] and not _errors(answer)

        def is_done(number: int) -> bool:
            partitions = self._partitions(number)
            return partitions is not None and all(
                each["replica_nodes"] == [*replicas] and sorted(each["isr_nodes"]) == sorted(replicas)
                for (topic, _), each in partitions.items()
                if topic in chosen
            )

        wait_for(f"the move to {replicas} is accepted", accepted)
        wait_for(f"the move to {replicas} is done", lambda: all(map(is_done, self.addresses)))

    def coordinators(self, key_type: int, keys: Iterable[str]) -> set[int]:
        """Of these groups or transactional ids."""
        answer = self.ask(
            min(self.addresses), "FindCoordinator", 4, key_type=key_type, coordinator_keys=[*keys]
        )
        return set() if answer is None else {each["node_id"] for each in answer["coordinators"]}


def _errors(answer: Any) -> list[int]:
    """Of a response to AlterPartitionReassignments."""
    partitions = [each for topic in answer["responses"] for each in topic["partitions"]]
    return [each["error_code"] for each in partitions if each["error_code"]]


def _are_led_by(leader: int, partitions: Mapping[tuple[str, int], Any]) -> bool:
    return all(each["leader_id"] == leader for each in partitions.values())


def await_none(what: str, look: Callable[[], list[str]]) -> None:
    """Waits until nothing is found; the error says what was."""
    found: list[str] = []

    def is_clean() -> bool:
        found[:] = look()
        return not found

    try:
        wait_for(what, is_clean)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from error
