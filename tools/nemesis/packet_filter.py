"""Drops packets between hosts: nftables through its netlink interface, so that no tool has to be installed.

All rules are in one table of the family netdev, in the namespace of this process.  What a node sends is seen
at the ingress of its interface here, and what this host sends to a node at the egress of the same interface.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

_NETLINK_NETFILTER = 12
_SUBSYSTEM = 10 << 8
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_ERROR = 2
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_FAMILY_NETDEV = 5
_INGRESS, _EGRESS = 0, 1
_ACCEPT, _DROP = 1, 0
_NETWORK_HEADER = 1
_SOURCE_OFFSET, _DESTINATION_OFFSET = 12, 16
_REGISTER, _VERDICT = 1, 0
_RANDOM = 1
_EQUAL = 0
_HEADER = struct.Struct("=IHHII")


@dataclass(frozen=True)
class Loss:
    """One packet in `one_in` from one address to another is dropped; all, if it is 1."""

    source: str
    destination: str
    one_in: int = 1


class PacketFilter:
    """The table of this run.  `interfaces` are the interfaces of the nodes, by address."""

    def __init__(self, table: str, interfaces: dict[str, str]) -> None:
        self._table = table
        self._interfaces = interfaces
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._sequence = 0

    def replace(self, losses: Iterable[Loss]) -> None:
        """These losses, in place of the former ones."""
        messages = [*self._without_table(), self._message(_NEW_TABLE, _text(1, self._table), flags=_CREATE)]
        for interface in self._interfaces.values():
            messages += [self._chain(interface, _INGRESS), self._chain(interface, _EGRESS)]
        self._send([*messages, *map(self._rule, losses)])

    def close(self) -> None:
        self._send(self._without_table())
        self._socket.close()

    def _without_table(self) -> list[bytes]:
        name = _text(1, self._table)
        return [self._message(_NEW_TABLE, name, flags=_CREATE), self._message(_DELETE_TABLE, name)]

    def _chain(self, interface: str, hook: int) -> bytes:
        place = _number(1, hook) + _number(2, 0) + _text(3, interface)
        name = _chain_name(interface, hook)
        body = _text(1, self._table) + _text(3, name) + _nested(4, place) + _number(5, _ACCEPT)
        return self._message(_NEW_CHAIN, body + _text(7, "filter"), flags=_CREATE)

    def _rule(self, loss: Loss) -> bytes:
        if loss.source in self._interfaces:
            chain = _chain_name(self._interfaces[loss.source], _INGRESS)
            where, address = _DESTINATION_OFFSET, loss.destination
        else:
            chain = _chain_name(self._interfaces[loss.destination], _EGRESS)
            where, address = _SOURCE_OFFSET, loss.source
        header = _number(1, _REGISTER) + _number(2, _NETWORK_HEADER) + _number(3, where) + _number(4, 4)
        expressions = _expression("payload", header) + _equals(socket.inet_aton(address))
        if loss.one_in > 1:
            draw = _number(1, _REGISTER) + _number(2, loss.one_in) + _number(3, _RANDOM)
            expressions += _expression("numgen", draw) + _equals(bytes(4))
        verdict = _nested(2, _nested(2, _number(1, _DROP)))
        expressions += _expression("immediate", _number(1, _VERDICT) + verdict)
        body = _text(1, self._table) + _text(2, chain) + _nested(4, expressions)
        return self._message(_NEW_RULE, body, flags=_CREATE | _APPEND)

    def _message(self, kind: int, body: bytes, flags: int = 0) -> bytes:
        return self._framed(_SUBSYSTEM | kind, _FAMILY_NETDEV, 0, body, _REQUEST | _ACK | flags)

    def _framed(self, kind: int, family: int, resource: int, body: bytes, flags: int) -> bytes:
        self._sequence += 1
        payload = struct.pack(">BBH", family, 0, resource) + body
        return _HEADER.pack(_HEADER.size + len(payload), kind, flags, self._sequence, 0) + payload

    def _send(self, messages: list[bytes]) -> None:
        """One transaction: all or nothing.  Raises OSError."""
        begin = self._framed(_BATCH_BEGIN, 0, 10, b"", _REQUEST)
        end = self._framed(_BATCH_END, 0, 10, b"", _REQUEST)
        self._socket.send(b"".join([begin, *messages, end]))
        for _ in range(len(messages)):
            self._check(self._socket.recv(1 << 16))

    @staticmethod
    def _check(answers: bytes) -> None:
        while len(answers) >= _HEADER.size:
            length, kind, *_ = _HEADER.unpack_from(answers)
            code = struct.unpack_from("=i", answers, _HEADER.size)[0]
            if kind == _ERROR and code:
                raise OSError(-code, f"nftables: {os.strerror(-code)}")
            answers = answers[(length + 3) & ~3 :]


def _chain_name(interface: str, hook: int) -> str:
    return f"{interface}-{'in' if hook == _INGRESS else 'out'}"


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _nested(kind: int, value: bytes) -> bytes:
    return _attribute(kind | _NESTED, value)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _expression(name: str, data: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, data))


def _equals(value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER) + _number(2, _EQUAL) + _nested(3, _attribute(1, value)))
