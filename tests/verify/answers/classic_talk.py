"""Several members of classic groups, each on its own connection to a broker.

Sending and receiving are separate, because the response to one member waits for another's request.  Responses
become plain values without anything that differs between two runs.  Scenarios are in `classic_scenarios.py`.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api_named
from barnabas.protocol.frame import read_response, write_request
from tests.frames import FrameReader
from tests.verify.answers.broker_ask import Plain, made, plain

PATIENCE_S = 30
PAUSE_S = 0.1
_MEMBER_ID = re.compile(r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$")
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Member:
    """One client; what it asks and hears is kept by its scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self.name = name
        self._connection = socket.create_connection(("localhost", scene.port), timeout=PATIENCE_S)
        self._asked: list[tuple[str, str, int, int]] = []
        self._reader = FrameReader()
        # What the last answer said, with ids as they are.
        self.last: dict[str, Any] = {}

    def send(self, title: str, api: str, version: int, /, **fields: Any) -> None:
        """Without waiting for the answer."""
        self._scene.correlation_id += 1
        message = made(api_named(api).request, fields)
        self._connection.sendall(write_request(message, version, self._scene.correlation_id, self.name))
        self._asked.append((title, api, version, self._scene.correlation_id))

    def hear(self) -> Plain:
        """The answer to the request that waits longest."""
        title, api, version, correlation_id = self._asked.pop(0)
        frame = None
        while frame is None:
            data = self._connection.recv(1 << 20)
            if not data:
                self._scene.keep(f"{title} v{version}", "(the connection is closed)")
                return "(the connection is closed)"
            frames = self._reader.feed(data)
            frame = bytes(frames[0]) if frames else None
        received_id, response = read_response(frame, api_named(api), version)
        assert received_id == correlation_id
        self.last = plain(response, version)
        self._scene.keep(f"{title} v{version}", self.last)
        return self.last

    def ask(self, title: str, api: str, version: int, /, **fields: Any) -> Plain:
        self.send(title, api, version, **fields)
        return self.hear()

    def is_silent(self, title: str) -> None:
        """Nothing has come so far: it waits for others."""
        self._connection.settimeout(PAUSE_S)
        try:
            data = self._connection.recv(1 << 20)
        except TimeoutError:
            self._scene.keep(title, "(silence)")
        else:
            raise AssertionError(f"{title}: something came: {data.hex()}")
        finally:
            self._connection.settimeout(PATIENCE_S)

    def close(self) -> None:
        self._connection.close()


class Scene:
    """All members of one scenario."""

    def __init__(self, port: int, prefix: str) -> None:
        self.port = port
        self.prefix = prefix
        self.correlation_id = 0
        self.heard: dict[str, Plain] = {}
        self._members: list[Member] = []
        self._ids: dict[str, str] = {}

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.close()

    def member(self, name: str) -> Member:
        made = Member(self, name)
        self._members.append(made)
        return made

    def group(self, name: str) -> str:
        """A group of this scenario, whose coordinator is there."""
        group_id = f"{self.prefix}-{name}"
        raw_client = Member(self, "host")
        heard, self.heard = self.heard, {}
        limit = time.monotonic() + PATIENCE_S
        try:
            while True:
                self.heard = {}
                found = raw_client.ask("", "FindCoordinator", 3, key=group_id, key_type=0)["error_code"]
                if not found:
                    described = raw_client.ask("-", "DescribeGroups", 0, groups=[group_id])
                    found = described["groups"][0]["error_code"]
                if not found:
                    return group_id
                assert found in _NOT_READY, found
                assert time.monotonic() < limit, "there is no coordinator"
                time.sleep(PAUSE_S)
        finally:
            self.heard = heard
            raw_client.close()

    def keep(self, title: str, answer: Plain) -> None:
        assert title not in self.heard, f"two answers are titled {title!r}"
        self.heard[title] = self._shown(answer)

    def _shown(self, value: Any) -> Any:
        """Member ids by what they begin with and the order in which they came."""
        if isinstance(value, dict):
            return {name: self._shown(one) for name, one in value.items() if name != "throttle_time_ms"}
        if isinstance(value, list):
            return sorted((self._shown(one) for one in value), key=str)
        if isinstance(value, str) and (found := _MEMBER_ID.match(value)):
            if value not in self._ids:
                self._ids[value] = f"{found.group(1)}#{len(self._ids)}"
            return self._ids[value]
        return value
