"""Syslog: M-I3 (collected from syslog)."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.collect.syslog import SyslogAddress, SyslogFramer, SyslogSource

PATIENCE_S = 60


def test_both_ways_of_framing_may_be_mixed() -> None:
    framer = SyslogFramer()
    assert framer.cut(b"5 <1>ab<13>one\n11 <1>counted\n<1>t") == [b"<1>ab", b"<13>one", b"<1>counted\n"]
    assert framer.cut(b"wo\n3 x") == [b"<1>two"]
    assert framer.cut(b"yz<1>rest") == [b"xyz"]
    assert framer.end() == [b"<1>rest"]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_counted_messages_come_whole_however_chunks_fall(messages: list[bytes], size: int) -> None:
    stream = b"".join(b"%d %b" % (len(message), message) for message in messages)
    framer = SyslogFramer()
    found = [one for at in range(0, len(stream), size) for one in framer.cut(stream[at : at + size])]
    assert found == messages


@pytest.mark.parametrize("start", [b"99999999999", b"9999999 ", b"12x "])
def test_an_invalid_length_ends_the_stream(start: bytes) -> None:
    with pytest.raises(ValueError, match="not a valid length"):
        SyslogFramer(max_message_bytes=1000).cut(start)


@pytest.mark.parametrize("text", ["udp", "udp://", "udp://host", "http://a:1", "tcp://:5", "tcp://a:99999"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should"):
        SyslogAddress.parse(text)


async def received(source: SyslogSource, count: int) -> list[bytes]:
    lines: list[bytes] = []
    reading = source.read()
    async with asyncio.timeout(PATIENCE_S):
        while len(lines) < count:
            lines += (await anext(reading)).lines
    await reading.aclose()
    return lines


def test_datagrams_and_connections_are_received() -> None:
    async def run() -> None:
        source = SyslogSource([SyslogAddress("udp", "127.0.0.1", 0), SyslogAddress("tcp", "127.0.0.1", 0)])
        await source.open()
        udp, tcp = source.bound
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"<13>by datagram\n", (udp.host, udp.port))
        _, writer = await asyncio.open_connection(tcp.host, tcp.port)
        writer.write(b"<13>by connection\n<13>again\n")
        await writer.drain()
        assert sorted(await received(source, 3)) == [b"<13>again", b"<13>by connection", b"<13>by datagram"]
        assert source.dropped == 0
        writer.close()
        source.stop()
        source.close()

    asyncio.run(run())


def test_a_connection_waits_while_the_buffer_is_full() -> None:
    async def run() -> None:
        source = SyslogSource([SyslogAddress("tcp", "127.0.0.1", 0)], max_buffer_bytes=100)
        await source.open()
        _, writer = await asyncio.open_connection(*source.bound[0][1:])
        messages = [b"<1>%05d" % number for number in range(1000)]
        writer.write(b"\n".join(messages) + b"\n")
        writer.write_eof()
        assert await received(source, 1000) == messages
        assert source.dropped == 0
        source.stop()
        source.close()
        writer.close()

    asyncio.run(run())


def test_dropped_datagrams_are_counted_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    source = SyslogSource([], max_buffer_bytes=10)
    taken = [source.take("here", b"12345") for _ in range(3)]
    assert taken == [True, True, False]
    source.drop()
    source.close()
    assert source.dropped == 1
    assert "1 syslog datagrams were dropped" in caplog.text


def test_nothing_is_reported_if_nothing_was_dropped(caplog: pytest.LogCaptureFixture) -> None:
    source = SyslogSource([], max_buffer_bytes=10)
    source.close()
    source.drop()
    source.close()
    source.close()
    assert caplog.text.count("datagrams were dropped") == 1


def test_datagrams_that_find_the_buffer_full_are_dropped() -> None:
    async def run() -> None:
        source = SyslogSource([SyslogAddress("udp", "127.0.0.1", 0)], max_buffer_bytes=11)
        await source.open()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in range(4):
                sender.sendto(b"<1>%d\n" % number, source.bound[0][1:])
            async with asyncio.timeout(PATIENCE_S):
                while source.dropped < 2:
                    await asyncio.sleep(0.001)
            source.stop()
        assert [line async for lines in source.read() for line in lines.lines] == [b"<1>0", b"<1>1"]
        assert source.dropped == 2

    asyncio.run(run())
