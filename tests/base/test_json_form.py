"""Plain data as JSON: what goes in comes out, and nothing else can be made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

import pytest

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.json_form import JsonForm


class Colour(IntEnum):
    RED = 3


class State(Enum):
    WHOLE = ""


class Key(NamedTuple):
    id: int
    directory: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class Vote:
    key: Key
    epoch: int
    colours: tuple[Colour, ...] = ()
    content: object = None


FORM = JsonForm([Colour, State, Key, Vote])
VOTE = Vote(Key(1, Uuid(bytes(range(16)))), 3, (Colour.RED,), (b"x", State.WHOLE, None, True, 1.5, {"a": 1}))


def test_a_message_comes_back_as_it_was() -> None:
    decoded = FORM.decode(FORM.encode(VOTE))
    assert decoded == VOTE
    assert isinstance(decoded.key, Key)
    assert isinstance(decoded.key.directory, Uuid)
    assert decoded.colours[0] is Colour.RED


def test_a_message_is_one_readable_line() -> None:
    assert FORM.encode(Key(7)) == b'{"is": "Key", "id": 7, "directory": {"is": "Uuid", "text": "%s"}}' % (
        str(ZERO_UUID).encode()
    )


def test_nested_tuples_come_back() -> None:
    assert FORM.decode(FORM.encode((1, (2, ()), "é"))) == (1, (2, ()), "é")


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"\xff",
        b'{"is": "Popen", "args": "true"}',
        b'{"is": "Key", "id": 1, "more": 2}',
        b'{"is": "Key"}',
        b'{"is": "Colour", "name": "BLUE"}',
        b'{"is": "Uuid", "text": "short"}',
        b'{"is": "bytes"}',
        b'{"is": ["Key"], "id": 1}',
    ],
)
def test_anything_else_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        FORM.decode(text)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ValueError):
        FORM.encode(b"\xff")
