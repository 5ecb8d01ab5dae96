"""Draws docs/assets/completion.svg: what an editor offers in a program on barnabas.client.

`python -m tools.generate_pictures` asks pyright's language server, which editors ask too, for the completions
and the types in PROGRAM, and draws its answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PICTURE = PROJECT / "docs" / "assets" / "completion.svg"
# The part of the program that the picture shows.
SHOWN = (
    'with Consumer("orders", bootstrap_servers="localhost:9092",',
    "              key_deserializer=STRING, value_deserializer=ORDER) as consumer:",
    "    record = consumer.getone()",
    "    record.value.",
)
PROGRAM = """\
from dataclasses import asdict, dataclass
from barnabas.client.serialization import STRING, Json
from barnabas.client.sync import Consumer

@dataclass
class Order:
    item: str
    count: int

ORDER = Json(from_json=lambda fields: Order(**fields), to_json=asdict)

""" + "\n".join(SHOWN)
ROWS = 12
ROW_HEIGHT, CHARACTER, LEFT, TOP = 20, 8.4, 18, 30


class LanguageServer:
    """Speaks JSON-RPC with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids = count(1)
        command = [str(Path(sys.executable).with_name("pyright-langserver")), "--stdio"]
        environment = Path(sys.prefix)
        settings = {"venvPath": str(environment.parent), "venv": environment.name}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        opened = [{"uri": folder.as_uri(), "name": "program"}]
        self.ask("initialize", {"processId": None, "workspaceFolders": opened, "capabilities": {}})
        self.tell("initialized", {})

    def open(self, text: str) -> str:
        uri = (self._folder / "program.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return uri

    def ask(self, method: str, parameters: object) -> Any:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                return message["result"]
            if "id" in message:
                # It asks whether it may report progress.
                self._send({"id": message["id"], "result": None})

    def tell(self, method: str, parameters: object) -> None:
        self._send({"method": method, "params": parameters})

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        return message

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def position(text: str, after: str) -> dict[str, int]:
    """Where a text ends for the last time."""
    before = text[: text.rindex(after) + len(after)]
    return {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}


def offered(server: LanguageServer, uri: str, after: str) -> list[str]:
    """The public names."""
    place = {"textDocument": {"uri": uri}, "position": position(PROGRAM, after)}
    found = server.ask("textDocument/completion", place)
    items = found["items"] if isinstance(found, dict) else found
    return sorted(item["label"] for item in items if not item["label"].startswith("_"))


def hover(server: LanguageServer, uri: str, before: str) -> str:
    """The type of the name that ends there."""
    place = position(PROGRAM, before)
    place["character"] -= 1
    found = server.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": place})
    text: str = found["contents"]["value"]
    return next(line for line in text.splitlines() if line.startswith("("))


def picture(lists: list[tuple[str, list[str]]], types: list[str]) -> str:
    width = int(LEFT * 2 + CHARACTER * max(map(len, SHOWN)))
    parts: list[str] = []

    def text(x: float, y: float, words: str, style: str = "") -> None:
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{style} xml:space="preserve">{escape(words)}</text>')

    for number, line in enumerate(SHOWN):
        text(LEFT, TOP + number * ROW_HEIGHT, line)
    top = TOP + len(SHOWN) * ROW_HEIGHT + 4
    column = (width - 2 * LEFT) / len(lists)
    for number, (title, names) in enumerate(lists):
        x = LEFT + number * column
        text(x, top + 8, title, ' class="note"')
        height = ROW_HEIGHT * min(len(names), ROWS) + 10
        parts.append(f'<rect x="{x:.0f}" y="{top + 16}" width="{column - 14:.0f}" height="{height}" rx="4"/>')
        for row, name in enumerate(names[:ROWS]):
            text(x + 10, top + 34 + row * ROW_HEIGHT, name)
    bottom = top + 52 + ROW_HEIGHT * max(min(len(names), ROWS) for _, names in lists)
    for number, line in enumerate(types):
        text(LEFT, bottom + number * ROW_HEIGHT, line, ' class="type"')
    height = bottom + len(types) * ROW_HEIGHT
    size = f'width="{width}" height="{height}"'
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">'
    )
    style = (
        "text{fill:#24292f}.note{fill:#57606a;font-size:12px}.type{fill:#0550ae}"
        "rect{fill:#ffffff;stroke:#d0d7de}"
    )
    lines = [
        opened,
        "<title>What an editor offers, as pyright's language server answers</title>",
        f"<style>{style}</style>",
        f'<rect {size} style="fill:#f6f8fa;stroke:none"/>',
        *parts,
        "</svg>\n",
    ]
    return "\n".join(lines)


def answers() -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The lists of completions with their titles, and the types."""
    with tempfile.TemporaryDirectory() as name:
        server = LanguageServer(Path(name))
        try:
            uri = server.open(PROGRAM)
            lists = [
                ("record.value.  offers", offered(server, uri, "record.value.")),
                ("consumer.  offers (the first of them)", offered(server, uri, "consumer.")),
            ]
            types = [
                hover(server, uri, "consumer"),
                hover(server, uri, "    record"),
                hover(server, uri, "record.value"),
            ]
        finally:
            server.end()
    return lists, types


def main() -> int:
    PICTURE.write_text(picture(*answers()), "utf-8")
    print(PICTURE.relative_to(PROJECT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
