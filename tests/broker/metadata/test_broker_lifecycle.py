"""The broker lifecycle, step by step, with a clock that the test advances."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.metadata.broker_lifecycle import Lifecycle, State
from barnabas.config.node.listeners import Endpoint
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import Timers
from tests.broker.worlds.fake_metadata import FakeMetadata
from tests.broker.worlds.front_world import node_of

TOPIC_ID = Uuid(b"t" * 16)
DIRECTORY, OTHER = Uuid(b"\x81" + bytes(15)), Uuid(b"\x01" + bytes(15))


class Life:
    """A lifecycle and its requests; tests provide the responses."""

    def __init__(self, **overrides: Any) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.channel = FakeMetadata()
        self.asked: list[tuple[Any, Promise[Any]]] = []
        self.life = Lifecycle(1, Uuid(b"i" * 16), node_of(**overrides).settings, self, self, self.timers)  # type: ignore[arg-type]

    @property
    def image(self) -> Any:
        return self.channel.image

    def monotonic_ns(self) -> int:
        return self.now_ns

    def send_request(self, request: Any, version: int, principal: str) -> Promise[Any]:
        self.asked.append((request, Promise()))
        return self.asked[-1][1]

    def start(self) -> None:
        end = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)
        self.life.start("cluster", [end], {"metadata.version": (7, 27)}, [DIRECTORY, OTHER], 12)

    def pass_ms(self, ms: int) -> None:
        self.now_ns += ms * NS_PER_MS
        self.timers.fire_due(self.now_ns)

    def last(self) -> Any:
        return self.asked[-1][0]

    def register(self) -> None:
        response = BrokerRegistrationResponse(throttle_time_ms=0, error_code=0, broker_epoch=77)
        self.asked[-1][1].set(response)
        self.publish(77)
        self.pass_ms(0)

    def publish(self, epoch: int, *, fenced: bool = True) -> None:
        """The metadata of this broker; it may be behind that of the controller."""
        self.channel.commit(
            RegisterBrokerRecord(
                broker_id=1,
                incarnation_id=Uuid(b"i" * 16),
                broker_epoch=epoch,
                end_points=[],
                features=[],
                rack=None,
                fenced=fenced,
            )
        )
        self.life.published()

    def heartbeat(self, **fields: Any) -> None:
        fields = {
            "is_caught_up": True,
            "is_fenced": False,
            "should_shut_down": False,
            "error_code": 0,
            **fields,
        }
        self.asked[-1][1].set(BrokerHeartbeatResponse(throttle_time_ms=0, **fields))

    def run_up(self) -> None:
        self.start()
        self.register()
        self.heartbeat(is_fenced=True)
        self.life.ready_to_unfence()
        self.pass_ms(0)
        self.heartbeat()


def test_a_broker_registers_with_all_that_it_is() -> None:
    life = Life(broker_rack="r7")
    life.start()
    request = life.last()
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.broker_id, request.cluster_id, request.rack) == (1, "cluster", "r7")
    assert [(one.name, one.host, one.port, one.security_protocol) for one in request.listeners] == [
        ("PLAINTEXT", "h", 9092, 0)
    ]
    # Sorted as Java sorts signed numbers.
    assert request.log_dirs == [DIRECTORY, OTHER]
    assert request.previous_broker_epoch == 12
    assert life.life.state is State.STARTING


def test_from_registration_to_running() -> None:
    life = Life()
    life.start()
    life.register()
    assert life.life.broker_epoch == 77
    first = life.last()
    assert isinstance(first, BrokerHeartbeatRequest)
    assert (first.broker_epoch, first.want_fence, first.want_shut_down) == (77, True, False)
    life.heartbeat(is_caught_up=False, is_fenced=True)
    assert not life.life.caught_up.done
    life.pass_ms(10)
    life.heartbeat(is_fenced=True)
    assert (life.life.caught_up.done, life.life.state) == (True, State.RECOVERY)
    life.life.ready_to_unfence()
    life.pass_ms(0)
    assert not life.last().want_fence
    life.heartbeat(is_fenced=False)
    assert (life.life.unfenced.done, life.life.state) == (False, State.RUNNING)
    # Clients are accepted when they are told of this broker, not of an earlier process.
    life.publish(76, fenced=False)
    assert not life.life.unfenced.done
    life.publish(77, fenced=False)
    assert life.life.unfenced.done
    life.life.published()
    # From then on one heartbeat each broker.heartbeat.interval.ms.
    asked = len(life.asked)
    life.pass_ms(1_999)
    assert len(life.asked) == asked
    life.pass_ms(1)
    assert len(life.asked) == asked + 1


def test_metadata_may_show_it_unfenced_before_the_response() -> None:
    life = Life()
    life.start()
    life.register()
    life.heartbeat(is_fenced=True)
    life.life.ready_to_unfence()
    life.pass_ms(0)
    life.publish(77, fenced=False)
    assert not life.life.unfenced.done
    life.heartbeat(is_fenced=False)
    assert life.life.unfenced.done


def test_failures_are_retried_with_exponential_backoff() -> None:
    life = Life()
    life.start()
    for delay_ms in (100, 200, 400):
        asked = len(life.asked)
        life.asked[-1][1].fail(KafkaError(ErrorCode.NOT_CONTROLLER))
        life.pass_ms(delay_ms - 1)
        assert len(life.asked) == asked
        life.pass_ms(1)
        assert len(life.asked) == asked + 1
    life.register()
    life.heartbeat(error_code=ErrorCode.STALE_BROKER_EPOCH)
    life.pass_ms(100)
    assert isinstance(life.last(), BrokerHeartbeatRequest)


def test_a_registration_that_never_succeeds_ends_the_start() -> None:
    life = Life()
    life.start()
    errors: list[BaseException] = []
    life.life.caught_up.then(lambda _: pytest.fail("it did not"), errors.append)
    life.pass_ms(60_000)
    assert "initial.broker.registration.timeout.ms" in str(errors[0])
    asked = len(life.asked)
    life.pass_ms(600_000)
    assert len(life.asked) == asked


def test_a_controlled_shutdown_waits_for_the_controller() -> None:
    life = Life()
    life.run_up()
    removed = life.life.shut_down()
    life.pass_ms(0)
    assert life.last().want_shut_down
    life.heartbeat(should_shut_down=False)
    assert not removed.done
    life.pass_ms(50)
    life.heartbeat(should_shut_down=False)
    life.pass_ms(2_000)
    life.heartbeat(should_shut_down=True)
    assert (removed.done, life.life.state) == (True, State.SHUTTING_DOWN)
    asked = len(life.asked)
    life.pass_ms(100_000)
    assert len(life.asked) == asked


def test_a_controlled_shutdown_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    """M-D9: and it ends in any case, with a line that says what that means."""
    caplog.set_level("INFO")
    life = Life()
    life.run_up()
    life.channel.commit(
        TopicRecord(name="t", topic_id=TOPIC_ID),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=[1, 2],
                isr=[1],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
            )
            for number in range(2)
        ),
    )
    removed = life.life.shut_down()
    life.pass_ms(0)
    life.heartbeat()
    life.pass_ms(50)
    life.heartbeat()
    assert "broker 1 waits to stop: it still leads 2 partitions" in caplog.text
    for number in range(2):
        life.channel.commit(PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, leader=2))
    life.pass_ms(2_000)
    life.heartbeat()
    assert "its leaderships have moved, and the other brokers are to learn of that" in caplog.text
    life.life.give_up_shutdown(300_000)
    assert removed.done
    assert "broker 1 stops without the controller's permission after 300 s" in caplog.text
    assert "broker.session.timeout.ms" in caplog.text


def test_a_broker_without_registration_shuts_down_at_once() -> None:
    life = Life()
    life.run_up()
    removed = life.life.shut_down()
    life.pass_ms(0)
    life.heartbeat(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert removed.done


def test_a_shutdown_follows_a_heartbeat_in_flight() -> None:
    life = Life()
    life.run_up()
    life.pass_ms(2_000)
    removed = life.life.shut_down()
    assert not life.last().want_shut_down
    life.heartbeat()
    life.pass_ms(0)
    assert life.last().want_shut_down
    life.heartbeat(should_shut_down=True)
    assert removed.done


def test_a_broker_that_never_ran_shuts_down_at_once() -> None:
    life = Life()
    assert life.life.shut_down().done
    life = Life()
    life.start()
    assert life.life.shut_down().done
    # A late response changes nothing.
    life.register()
    assert life.life.state is State.SHUTTING_DOWN


def test_a_failed_directory_is_reported_at_once() -> None:
    """M-E5"""
    life = Life()
    life.run_up()
    life.life.dir_failed(OTHER)
    life.pass_ms(0)
    assert life.last().offline_log_dirs == [OTHER]
    asked = len(life.asked)
    life.heartbeat()
    life.life.dir_failed(OTHER)
    life.pass_ms(0)
    assert len(life.asked) == asked
