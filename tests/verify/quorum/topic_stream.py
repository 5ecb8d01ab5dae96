"""Creates topics, one after the other, through several brokers while the quorum has its troubles."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from tests.verify.answers.broker_ask import RawClient
from tests.verify.quorum.mixed_cluster import Member, wait_for

VERSION = 5
TIMEOUT_MS = 5_000
PAUSE_S = 0.1
# Answers after which the request is sent again: its outcome is not known, or nothing was done.
AGAIN = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


@dataclass
class TopicStream:
    """`answered` has each topic that a broker confirmed; `strange` every answer that is neither."""

    brokers: list[Member]
    prefix: str = "stream"
    answered: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    _is_stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        if self._thread is not None:
            self._thread.join()

    def await_more(self, count: int) -> None:
        """Waits until this many more topics are confirmed."""
        wanted = len(self.answered) + count
        wait_for(f"{wanted} topics", lambda: len(self.answered) >= wanted)

    def _run(self) -> None:
        number = 0
        while not self._is_stopped.is_set():
            broker = self.brokers[number % len(self.brokers)]
            name = f"{self.prefix}-{number}-by-{broker.kind}"
            if self._create(broker, name):
                self.answered.append(name)
                number += 1
            time.sleep(PAUSE_S)

    def _create(self, broker: Member, name: str) -> bool:
        client = RawClient(broker.port, 0)
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
        try:
            answer = client.one("CreateTopics", VERSION, topics=topics, timeout_ms=TIMEOUT_MS)
        except OSError:
            return False
        finally:
            client.close()
        if isinstance(answer, str):
            return False
        code = ErrorCode(answer["topics"][0]["error_code"])
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return True
        if code not in AGAIN:
            self.strange.append(f"{name}: {code.name}")
        return False
