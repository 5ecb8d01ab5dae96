"""Effects and events are plain, frozen data."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from barnabas.base import effects
from barnabas.base.effects import Effect, Event


@pytest.mark.parametrize("kind", [*Effect.__args__, *Event.__args__], ids=lambda kind: kind.__name__)
def test_every_event_and_effect_is_frozen_and_slotted(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)
    assert tuple(field.name for field in dataclasses.fields(kind)) == vars(kind)["__slots__"]


def test_a_persist_has_no_token_by_default() -> None:
    assert effects.Persist("entry").token is None
