"""The walks of docs/ARCHITECTURE.md are those of a running node: all functions of a chain are on its stack at once."""

from __future__ import annotations

import re
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.broker.test_server import Loop, create, fetch, produce

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = f"{PROJECT / 'src' / 'barnabas'}/"
PAGE = (PROJECT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
WALKS = re.sub(r"\s+", " ", PAGE.split("## The way of four requests\n", 1)[1].split("\n## ", 1)[0])
CHAIN = re.compile(r"`[^`]+`(?: → `[^`]+`)+")
SIZES = re.compile(r"\((\d+) functions; (\d+) before\): (`[^`]+`(?: → `[^`]+`)+)")
# `broker/network/dispatch.Dispatch.serve`: a module, and the name of a function in it.
STEP = re.compile(r"`([a-z_/]+)\.([A-Za-z_]\w*(?:\.\w+)?)`")
# Functions between two steps that only pass on.
MOST_LEFT_OUT = 2

Step = tuple[str, str]


def steps_of(chain: str) -> tuple[Step, ...]:
    return tuple(STEP.findall(chain))


CHAINS = [steps_of(chain) for chain in CHAIN.findall(WALKS)]


class Stacks:
    """The stacks of our own functions, outermost first, whenever the last function of a chain was called."""

    def __init__(self) -> None:
        self._last = {chain[-1] for chain in CHAINS}
        self._seen: defaultdict[Step, set[tuple[Step, ...]]] = defaultdict(set)

    def noticed(self, frame: FrameType, event: str, argument: object) -> None:
        """Called by the interpreter for every function."""
        if event == "call" and (step := self._step(frame)) in self._last:
            self._seen[step].add(tuple(self._steps(frame))[::-1])

    def of(self, step: Step) -> set[tuple[Step, ...]]:
        return self._seen[step]

    @staticmethod
    def _step(frame: FrameType) -> Step:
        module = frame.f_code.co_filename.removeprefix(SOURCES).removesuffix(".py")
        return module, frame.f_code.co_qualname

    def _steps(self, innermost: FrameType) -> Iterator[Step]:
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_filename.startswith(SOURCES):
                yield self._step(frame)
            frame = frame.f_back


@contextmanager
def recorded() -> Iterator[Stacks]:
    stacks = Stacks()
    threading.setprofile(stacks.noticed)
    sys.setprofile(stacks.noticed)
    try:
        yield stacks
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Stacks:
    """A node starts, a topic is created, written to and read, and the node starts again."""
    folder = tmp_path_factory.mktemp("walks")
    with recorded() as stacks:
        loop = Loop()
        broker = loop.broker(folder)
        loop.finish(broker.start())
        wire = loop.connect(broker)
        assert create(wire, "orders").error_code == 0
        # The first request for a handler imports it, and is served without the quick path.
        for value in (b"first", b"second"):
            assert produce(wire, "orders", value).error_code == 0
        assert b"second" in fetch(wire, "orders")
        loop.finish(broker.stop())
        broker = loop.broker(folder)
        loop.finish(broker.start())
        loop.finish(broker.stop())
        loop.close()
    return stacks


def follows(chain: Sequence[Step], stack: Sequence[Step]) -> bool:
    """Whether the steps are on the stack in this order, each soon after the one before."""
    at = stack.index(chain[0]) if chain[0] in stack else -1
    for step in chain[1:]:
        left = stack[at + 1 : at + 2 + MOST_LEFT_OUT]
        if at < 0 or step not in left:
            return False
        at += 1 + left.index(step)
    return True


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain[0][1]} to {chain[-1][1]}")
def test_a_running_node_takes_these_steps(chain: tuple[Step, ...], stacks: Stacks) -> None:
    seen = stacks.of(chain[-1])
    assert any(follows(chain, stack) for stack in seen), "\n".join(
        " → ".join(f"{module}.{function}" for module, function in stack) for stack in sorted(seen)
    )


@pytest.mark.parametrize(("now", "before", "chain"), SIZES.findall(WALKS))
def test_no_walk_is_longer_than_it_was(now: str, before: str, chain: str) -> None:
    assert len(steps_of(chain)) == int(now) <= int(before)


def test_each_of_the_four_is_walked() -> None:
    titles = re.findall(r"^### (\w+)$", PAGE, re.M)
    assert titles == ["Produce", "Fetch", "CreateTopics", "Restart"]
    assert len(CHAINS) >= len(SIZES.findall(WALKS)) >= 8
