"""A stand-in of a schema registry, over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """Schemas by id, as a registry over HTTP has them; counts its requests."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.subjects: dict[str, set[int]] = {}
        # Of those that are not Avro.
        self.kinds: dict[int, dict[str, str]] = {}
        self.requests: list[str] = []
        self.credentials: str | None = None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(registry.get(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(registry.post(self.path, body["schema"], body.get("schemaType")))

            def _answer(self, answer: tuple[int, object]) -> None:
                registry.requests.append(self.path)
                registry.credentials = self.headers["Authorization"]
                code, content = answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_address[1]}"

    def get(self, path: str) -> tuple[int, object]:
        if path.endswith("/versions/latest"):
            known = self.subjects.get(path.split("/")[2])
            if not known:
                return 404, {"error_code": 40401, "message": "Subject not found."}
            number = max(known)
            return 200, {"schema": self.schemas[number - 1], **self.kinds.get(number, {})}
        number = int(path.rpartition("/")[2])
        if number == 99:
            return 200, b"no json"
        if number == 98:
            return 200, {"schema": "syntax", "schemaType": "PROTOBUF"}
        if not 1 <= number <= len(self.schemas):
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"schema": self.schemas[number - 1], **self.kinds.get(number, {})}

    def post(self, path: str, schema: str, kind: str | None = None) -> tuple[int, object]:
        _, _, subject, *rest = path.split("/")
        if rest == ["versions"]:
            if schema not in self.schemas:
                self.schemas.append(schema)
            number = self.schemas.index(schema) + 1
            self.subjects.setdefault(subject, set()).add(number)
            if kind is not None:
                self.kinds[number] = {"schemaType": kind}
            return 200, {"id": number}
        if schema not in self.schemas or subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        return 200, {"id": self.schemas.index(schema) + 1, "subject": subject, "version": 1}


@contextmanager
def registry_running() -> Iterator[Registry]:
    registry = Registry()
    thread = threading.Thread(target=registry.server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join()
        registry.server.server_close()
