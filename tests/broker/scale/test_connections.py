"""Many connections, and more than there are descriptors; ten thousand of them are a row of the bench."""

from __future__ import annotations

import struct
from contextlib import ExitStack

from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.worlds.live_broker import live_broker
from tools.raw_broker import BrokerProcess, RawConnection

IDLE = 800
HALF_OPEN = 100
OPEN_FILES = 160


def is_served(connection: RawConnection) -> bool:
    try:
        return connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    except ConnectionError:
        return False


def test_new_clients_are_served_among_many_idle_and_half_open_ones() -> None:
    with live_broker() as broker, ExitStack() as stack:
        before = broker.rss_bytes
        idle = [stack.enter_context(broker.connect()) for _ in range(IDLE)]
        assert all(map(is_served, idle))
        for _ in range(HALF_OPEN):
            stack.enter_context(broker.connect()).send(struct.pack(">i", 100) + b"\0")
        with broker.connect() as newcomer:
            assert is_served(newcomer)
        assert is_served(idle[0])
        assert broker.rss_bytes - before < 32 << 20
        assert broker.open_file_count >= IDLE + HALF_OPEN


def served_of(broker: BrokerProcess, stack: ExitStack, count: int) -> list[RawConnection]:
    return [one for one in (stack.enter_context(broker.connect()) for _ in range(count)) if is_served(one)]


def test_too_many_connections_are_sent_away_and_files_keep_their_share() -> None:
    with live_broker(open_files=OPEN_FILES) as broker:
        with ExitStack() as stack:
            inside = served_of(broker, stack, OPEN_FILES - 60)
            assert len(inside) > 20
            with broker.connect() as outside:
                assert not is_served(outside)
            # Who is inside is served; its logs have descriptors left.
            assert all(map(is_served, inside))
            line = "too many open files, new connections are not accepted; raise the limit (ulimit -n) and restart"
            assert broker.log.read_text("utf-8").count(line) >= 1
        with ExitStack() as stack:
            assert len(served_of(broker, stack, 5)) == 5
