"""A broker in a separate process, and raw connections to it, for tools, tests and benchmarks."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.schema import Message

START_PATIENCE_S = 120
STOP_PATIENCE_S = 120
RESPONSE_TIMEOUT_S = 120
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SIZE = struct.Struct(">i")

ResponseT = TypeVar("ResponseT", bound=Message)


class BrokerProcess:
    """`barnabas dev` with its data in a given folder; can be restarted after it has ended."""

    def __init__(self, folder: Path, *options: str, open_files: int | None = None) -> None:
        self.folder = folder
        self.options = options
        self.open_files = open_files
        self.log = folder / "broker.log"
        self.address = ("127.0.0.1", 0)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill() if error is not None else self.stop()

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def rss_bytes(self) -> int:
        """The memory of the process, or 0 if the system does not report it."""
        with contextlib.suppress(OSError):
            return int(Path(f"/proc/{self.pid}/statm").read_text("utf-8").split()[1]) * PAGE_BYTES
        return 0

    @property
    def open_file_count(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def faults(self) -> list[str]:
        """The errors in its log, including those of earlier runs."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if " ERROR " in line or " CRITICAL " in line or "Traceback" in line]

    def start(self) -> None:
        """Starts the broker, and waits until it listens."""
        command = [sys.executable, "-m", "barnabas", "dev", "--port", "0"]
        command += ["--data", str(self.folder / "data"), *self.options]
        if self.open_files is not None:
            command = ["sh", "-c", f'ulimit -n {self.open_files} && exec "$@"', "sh", *command]
        environment = {**os.environ, "BARNABAS_STATE": str(self.folder / "state")}
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
        assert self._process.stdout is not None
        # A start that hangs must not block the caller for ever.
        watch = threading.Timer(START_PATIENCE_S, self._process.kill)
        watch.start()
        first = self._process.stdout.readline()
        watch.cancel()
        if "listens on " not in first:
            self.kill()
            raise RuntimeError(f"the broker did not start: {first}{self.log.read_text('utf-8')[-2000:]}")
        host, _, port = first.split("listens on ")[1].split()[0].rpartition(":")
        self.address = (host, int(port))

    def stop(self) -> int:
        """Stops the broker, and returns its exit code."""
        self._running.terminate()
        return self._ended(STOP_PATIENCE_S)

    def kill(self) -> None:
        """Like kill -9."""
        self._running.send_signal(signal.SIGKILL)
        self._ended(STOP_PATIENCE_S)

    def connect(self) -> RawConnection:
        return RawConnection(self.address)

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "start it first"
        return self._process

    def _ended(self, patience_s: float) -> int:
        process = self._running
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
        self._process = None
        return code


class RawConnection:
    """A socket that waits for complete responses."""

    def __init__(self, address: tuple[str, int], patience_s: float = RESPONSE_TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self) -> bytes | None:
        """The next response without its size, or None if the server closed.  Raises TimeoutError."""
        try:
            size = self._receive(_SIZE.size)
            return None if size is None else self._receive(_SIZE.unpack(size)[0])
        except ConnectionError:
            return None

    def ask(self, request: Message, version: int, response_type: type[ResponseT]) -> ResponseT:
        """Sends a request and returns its response."""
        self._correlation_id += 1
        self.send(write_request(request, version, self._correlation_id, "raw"))
        return self.receive(request, version, response_type, self._correlation_id)

    def ask_all(
        self, requests: Sequence[Message], version: int, response_type: type[ResponseT]
    ) -> Iterator[ResponseT]:
        """Sends many requests at once, and yields their responses in order."""
        first = self._correlation_id + 1
        self._correlation_id += len(requests)
        frames = (write_request(request, version, first + at, "raw") for at, request in enumerate(requests))
        self.send(b"".join(frames))
        for at, request in enumerate(requests):
            yield self.receive(request, version, response_type, first + at)

    def receive(
        self, request: Message, version: int, response_type: type[ResponseT], correlation_id: int
    ) -> ResponseT:
        frame = self.frame()
        if frame is None:
            raise ConnectionError(f"the server closed the connection upon {request.schema.name}")
        assert request.schema.key is not None
        answered, message = read_response(frame, api(request.schema.key), version)
        assert answered == correlation_id, f"a response to {answered}, not to {correlation_id}"
        assert isinstance(message, response_type)
        return message

    def _receive(self, size: int) -> bytes | None:
        received = bytearray()
        while len(received) < size:
            chunk = self.socket.recv(min(1 << 20, size - len(received)))
            if not chunk:
                return None
            received += chunk
        return bytes(received)
