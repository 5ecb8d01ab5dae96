"""The kit over HTTP, for tests in any language: `barnabas dev --control PORT`.

Requests and responses are JSON.  Each call blocks until it is done, in a thread of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.errors import KitError, WaitTimeoutError
from barnabas.testing.kit.faults.outages import Effect
from barnabas.testing.kit.faults.rules import Fault
from barnabas.testing.kit.snapshots import Snapshot

HOST = "127.0.0.1"
# Browsers send the name that their page was loaded by: a foreign one means a foreign page.
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY_BYTES = 1 << 20
MAX_KEPT = 10_000
_JSON = "application/json"

Body = dict[str, Any]


class NotThereError(Exception):
    """There is no such path, or nothing with this number."""


class Control:
    """What can be asked of one cluster; faults, effects and snapshots are known by numbers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._number = 0
        self._kept: dict[int, Fault | Effect | Snapshot] = {}
        faults, clock = cluster.faults, cluster.clock
        self._effects: Mapping[str, Callable[..., Effect]] = {
            "kill": cluster.kill,
            "pause": cluster.pause,
            "shut-down": cluster.shut_down,
            "partition": self._partition,
            "full-disk": faults.full_disk,
            "slow-disk": faults.slow_disk,
            "shrink-isr": faults.shrink_isr,
        }
        self._posts: Mapping[str, Callable[..., object]] = {
            "topics": lambda **body: cluster.topic(**body).name,
            "faults": lambda **body: self._keep(faults.add(**body)),
            "elect": cluster.elect,
            "restart": cluster.restart,
            "rebalance": faults.rebalance,
            "expire-transaction": faults.expire_transaction,
            "advance": clock.advance,
            "retention": cluster.run_retention,
            "snapshots": lambda: self._keep(cluster.snapshot()),
            "wait-caught-up": partial(self._wait, "wait_caught_up"),
            "wait-assigned": partial(self._wait, "wait_assigned"),
            "wait-settled": partial(self._wait, "wait_settled"),
        }

    def get(self, path: list[str]) -> Body:
        match path:
            case []:
                return self._state()
            case [kind, number] if kind in ("faults", "effects"):
                kept = self._found(number)
                return {"text": str(kept)} | ({"hits": kept.hits} if isinstance(kept, Fault) else {})
            case ["leader", topic, partition]:
                return {"leader": self._cluster.leader(topic, int(partition))}
            case ["lag", group]:
                return {"lag": self._cluster.group(group).lag()}
        raise NotThereError

    def post(self, path: list[str], body: Body) -> Body:
        match path:
            case ["effects", kind] if kind in self._effects:
                return {"result": self._keep(self._effects[kind](**body))}
            case ["faults", number, "wait"]:
                fault = self._found(number)
                if isinstance(fault, Fault):
                    return {"hits": fault.wait(**body).hits}
            case ["snapshots", number, "restore"]:
                snapshot = self._found(number)
                if isinstance(snapshot, Snapshot):
                    self._cluster.restore(snapshot)
                    return {}
            case [name] if name in self._posts:
                return {"result": self._posts[name](**body)}
        raise NotThereError

    def delete(self, path: list[str]) -> Body:
        match path:
            case ["faults" | "effects" | "snapshots", number]:
                kept = self._found(number)
                del self._kept[int(number)]
                if isinstance(kept, Fault):
                    kept.remove()
                elif isinstance(kept, Effect):
                    kept.end()
                return {}
        raise NotThereError

    def _state(self) -> Body:
        cluster = self._cluster
        return {
            "bootstrap_servers": cluster.bootstrap_servers,
            "brokers": cluster.brokers,
            "controller": cluster.controller,
            "interventions": cluster.interventions(),
            "now_ms": cluster.clock.now_ms,
        }

    def _partition(self, one: int | str, others: list[int] | None = None) -> Effect:
        return self._cluster.faults.partition(one, *(others or []))

    def _wait(self, method: str, group: str, topics: list[str] | None = None, **options: Any) -> None:
        getattr(self._cluster.group(group), method)(*(topics or []), **options)

    def _keep(self, made: Fault | Effect | Snapshot) -> int:
        if len(self._kept) >= MAX_KEPT:
            raise KitError(f"{MAX_KEPT} faults, effects and snapshots are kept: delete some")
        self._number += 1
        self._kept[self._number] = made
        return self._number

    def _found(self, number: str) -> Fault | Effect | Snapshot:
        kept = self._kept.get(int(number)) if number.isdecimal() else None
        if kept is None:
            raise NotThereError
        return kept


class ControlServer(ThreadingHTTPServer):
    """Serves one cluster, on this machine only; `serve_forever` until `shutdown`."""

    daemon_threads = True

    def __init__(self, cluster: Cluster, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.control = Control(cluster)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ControlServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(self.server.control.get)

    def do_DELETE(self) -> None:
        self._serve(self.server.control.delete)

    def do_POST(self) -> None:
        self._serve(lambda path: self.server.control.post(path, self._body()))

    def _serve(self, work: Callable[[list[str]], Body]) -> None:
        try:
            self._check_host()
            status, body = 200, work([part for part in self.path.split("?")[0].split("/") if part])
        except NotThereError:
            status, body = 404, {"error": f"there is nothing at {self.command} {self.path}"}
        except WaitTimeoutError as error:
            status, body = 504, {"error": str(error)}
        except (KitError, KafkaError, ValueError, TypeError) as error:
            status, body = 400, {"error": str(error)}
        self._answer(status, body)

    def _check_host(self) -> None:
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if name not in _OWN_NAMES:
            raise ValueError(f"the Host header {name!r} is not this machine's")

    def _body(self) -> Body:
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAX_BODY_BYTES:
            raise ValueError(f"a body has at most {MAX_BODY_BYTES} bytes, not {size}")
        data = self.rfile.read(size)
        if not data:
            return {}
        # A form of a foreign page cannot send this type.
        if self.headers.get_content_type() != _JSON:
            raise ValueError(f"the body is to be sent as Content-Type: {_JSON}")
        body = json.loads(data)
        if not isinstance(body, dict):
            raise ValueError("the body is a JSON object with the arguments of the call")
        return body

    def _answer(self, status: int, body: Body) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the test that calls knows what it does."""
