"""The kit over HTTP, as a test in another language uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

TIMEOUT_S = 60.0


class Remote:
    """Calls of the server."""

    def __init__(self, url: str, servers: str) -> None:
        self.url = url
        self.servers = servers

    def call(self, method: str, path: str, headers: Any = None, **body: Any) -> tuple[int, Any]:
        given = {"Content-Type": "application/json", **(headers or {})}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self.url + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    command = [sys.executable, "-m", "barnabas", "dev", "--control", "0", "--port", "0", "--brokers", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        servers, url = lines[1].split()[-1], lines[2].split()[-1]
        yield Remote(url, servers)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0


def test_faults_strike_and_are_waited_for(remote: Remote) -> None:
    assert remote.call("POST", "/topics", name="faulty") == (200, {"result": "faulty"})
    status, made = remote.call("POST", "/faults", api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert status == 200
    producer = Producer({"bootstrap.servers": remote.servers, "retry.backoff.ms": 10})
    producer.produce("faulty", b"a")
    assert producer.flush(TIMEOUT_S) == 0
    path = f"/faults/{made['result']}"
    assert remote.call("POST", f"{path}/wait", hits=2) == (200, {"hits": 2})
    assert remote.call("GET", path)[1]["hits"] == 2
    assert remote.call("DELETE", path) == (200, {})
    assert remote.call("DELETE", path)[0] == 404


def test_nodes_are_killed_and_come_back(remote: Remote) -> None:
    remote.call("POST", "/topics", name="failing-over")
    leader = remote.call("GET", "/leader/failing-over/0")[1]["leader"]
    effect = remote.call("POST", "/effects/kill", node=leader)[1]["result"]
    state = remote.call("GET", "/")[1]
    assert state["interventions"] == [f"node {leader} is killed"]
    assert remote.call("DELETE", f"/effects/{effect}") == (200, {})
    assert remote.call("GET", "/")[1]["interventions"] == []


def test_snapshots_time_and_waits(remote: Remote) -> None:
    before = remote.call("GET", "/")[1]["now_ms"]
    snapshot = remote.call("POST", "/snapshots")[1]["result"]
    assert remote.call("POST", "/advance", days=8)[0] == 200
    assert remote.call("POST", "/retention")[0] == 200
    assert remote.call("GET", "/")[1]["now_ms"] - before >= 8 * 86_400_000
    remote.call("POST", "/topics", name="lost")
    assert remote.call("POST", f"/snapshots/{snapshot}/restore") == (200, {})
    assert remote.call("POST", "/topics", name="lost")[0] == 200
    status, answer = remote.call("POST", "/wait-caught-up", group="nobody", timeout=0.05)
    assert status == 504 and "there is no group nobody" in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/nothing", {}, 404, "there is nothing at GET /nothing"),
        ("POST", "/faults", {"api": "Produze", "delay": 1}, 400, "did you mean Produce"),
        ("POST", "/effects/kill", {"node": 9}, 400, "there is no node 9"),
        ("POST", "/effects/kill", {"nodes": 1}, 400, "unexpected keyword argument"),
        ("POST", "/elect", {"topic": "none"}, 400, "there is no partition none-0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    remote: Remote, method: str, path: str, body: Any, status: int, message: str
) -> None:
    found, answer = remote.call(method, path, **body)
    assert found == status and message in answer["error"], answer


def test_foreign_pages_cannot_use_it(remote: Remote) -> None:
    assert "Host" in remote.call("GET", "/", {"Host": "evil.example"})[1]["error"]
    status, answer = remote.call("POST", "/topics", {"Content-Type": "text/plain"}, name="x")
    assert status == 400 and "Content-Type" in answer["error"]
