"""Lines as servers and libraries write them by default: nginx, sshd, log4j with stack traces, klog, Python, pino.

Nothing is known of them but their number; the generated services (`generator`) have a truth to compare with.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

NAMES = ("nginx-access", "nginx-error", "auth", "shop-java", "kubelet", "worker-python", "web-node")
OWNERS = {
    "nginx-access": "team-a", "nginx-error": "team-a", "sshd": "team-b", "shop-java": "team-c",
    "kubelet": "team-b", "worker-python": "team-d", "web-node": "team-d",
}  # fmt: skip
# For so many seconds of every so many the upstream of nginx is down.
TROUBLE_S, EVERY_S = 25, 90
_PATHS = ("/", "/items", "/items/42?ref=mail", "/basket", "/api/v1/orders", "/static/app.js")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0", "curl/8.5.0", "kube-probe/1.30")


class Usual:
    """Writes lines for the times that it is given."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def line(self, time_ms: int) -> tuple[str, bytes]:
        """The name of a file, and a line for it (with its stack trace)."""
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
        name = self._random.choices(NAMES, (12, 1, 2, 4, 2, 3, 4))[0]
        is_down = time_ms // 1000 % EVERY_S < TROUBLE_S
        if is_down and self._random.random() < 0.2:
            name = "nginx-error"
        text: str = getattr(self, "_" + name.replace("-", "_"))(time, is_down)
        return name, text.encode()

    def _number(self, end: int) -> int:
        return self._random.randrange(1, end)

    def _address(self) -> str:
        return f"10.{self._number(9)}.{self._number(99)}.{self._number(255)}"

    def _nginx_access(self, time: datetime, is_down: bool) -> str:
        status = self._random.choices((200, 304, 404, 502), (80, 10, 5, 60 if is_down else 1))[0]
        path, agent = self._random.choice(_PATHS), self._random.choice(_AGENTS)
        method = self._random.choice(("GET", "GET", "GET", "POST"))
        return (
            f'{self._address()} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "{method} {path} HTTP/1.1" {status} '
            f'{self._number(9000)} "-" "{agent}"'
        )

    def _nginx_error(self, time: datetime, is_down: bool) -> str:
        return (
            f"{time:%Y/%m/%d %H:%M:%S} [error] 31#31: *{self._number(99999)} connect() failed (111: Connection "
            f"refused) while connecting to upstream, client: {self._address()}, server: shop.example.com, "
            f'request: "GET {self._random.choice(_PATHS)} HTTP/1.1", upstream: "http://10.0.0.7:8080/"'
        )

    def _auth(self, time: datetime, is_down: bool) -> str:
        head = f"{time:%b} {time.day:2d} {time:%H:%M:%S} web1 sshd[{self._number(30000)}]:"
        if self._random.random() < 0.7:
            return f"{head} Failed password for invalid user admin from {self._address()} port {self._number(60000)} ssh2"
        return f"{head} Accepted publickey for deploy from {self._address()} port {self._number(60000)} ssh2"

    def _shop_java(self, time: datetime, is_down: bool) -> str:
        head = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}"
        if self._random.random() > (0.3 if is_down else 0.03):
            return f"{head} INFO [exec-{self._number(8)}] shop.Orders: order {self._number(99999)} paid in {self._number(900)} ms"
        return (
            f"{head} ERROR [exec-{self._number(8)}] shop.Orders: order {self._number(99999)} failed\n"
            "java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n"
            f"\tat shop.Payments.charge(Payments.java:{self._number(400)})\n\t... 12 more"
        )

    def _kubelet(self, time: datetime, is_down: bool) -> str:
        level, what = (
            ("E", "probe failed") if is_down and self._random.random() < 0.4 else ("I", "probe succeeded")
        )
        return (
            f"{level}{time:%m%d %H:%M:%S.%f}    1234 prober.go:{self._number(300)}] {what} "
            f'pod="shop/web-{self._number(9)}" duration={self._number(90)}ms'
        )

    def _worker_python(self, time: datetime, is_down: bool) -> str:
        head = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d} - worker.mail"
        if self._random.random() < 0.1:
            return f"{head} - WARNING - retry {self._number(4)} of message {self._number(99999)}"
        return f"{head} - INFO - message {self._number(99999)} sent in {self._number(300)} ms"

    def _web_node(self, time: datetime, is_down: bool) -> str:
        level = 50 if is_down and self._random.random() < 0.2 else 30
        message = "upstream did not answer" if level == 50 else "request completed"
        row = {"level": level, "time": round(time.timestamp() * 1000), "pid": 7, "hostname": "web1"}
        return json.dumps(
            {**row, "msg": message, "reqId": f"req-{self._number(9999)}"}, separators=(",", ":")
        )
