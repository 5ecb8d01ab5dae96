"""Lines as servers and libraries write them are understood."""

from __future__ import annotations

from datetime import UTC, datetime

from barnabas.logs.reader import Reader
from barnabas.testing.logs.usual import EVERY_S, NAMES, Usual

START_MS = 1_790_000_000_000


def test_every_file_is_of_its_format_and_its_time() -> None:
    usual = Usual(1)
    lines: dict[str, list[str]] = {}
    for number in range(EVERY_S * 20):
        name, text = usual.line(START_MS + number * 50)
        lines.setdefault(name, []).extend(text.decode().split("\n"))
    assert set(lines) == set(NAMES)
    formats = {}
    for name, texts in lines.items():
        records = list(Reader(datetime.fromtimestamp(START_MS / 1000 + 600, UTC)).records(texts))
        formats[name] = {record.format for record in records}
        assert all((record.time or "").startswith("2026-09-21T") for record in records)
        if name == "shop-java":
            assert any("Connection refused" in str(record.fields.get("trace")) for record in records)
    assert formats == {
        "nginx-access": {"access"},
        "nginx-error": {"nginx-error"},
        "auth": {"rfc3164"},
        "shop-java": {"log4j"},
        "kubelet": {"klog"},
        "worker-python": {"python"},
        "web-node": {"json"},
    }
