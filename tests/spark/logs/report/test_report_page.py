"""The page and the view: results as people see them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import Any

from barnabas.spark.logs.report import page
from barnabas.spark.logs.results import Results
from barnabas.spark.logs.view import summary, view
from barnabas.spark.pipeline.running import Progress


def results() -> Results:
    found = Results()
    for minute in range(3):
        for service, errors in (("cart", 0), ("<b>login", 30 * minute)):
            row = {
                "start": f"2026-01-01T10:0{minute}:00.000Z",
                "end": f"2026-01-01T10:0{minute + 1}:00.000Z",
                "service": service,
                "owner": "team-a",
                "lines": 200,
                "requests": 100,
                "errors": errors,
                "duration_ms": 4200,
            }
            found.take(record("logs.counts", row))
    alert = {"service": "<b>login", "owner": "team-a", "state": "raised", "since": "2026-01-01T10:02:00.000Z"}
    found.take(record("alerts", {**alert, "error_rate": 0.6}))
    failure: Any = SimpleNamespace(topic="logs.failures", value=b"{}", headers=())
    found.take(failure)
    bad = SimpleNamespace(topic="logs.bad", value=b"<script>\xff", headers=(("problem", b"no time"),))
    found.take(bad)  # type: ignore[arg-type]
    return found


def record(topic: str, row: dict[str, object]) -> Any:
    return SimpleNamespace(topic=topic, value=json.dumps(row).encode(), headers=())


def test_the_page_is_self_contained_and_complete() -> None:
    text = page(results())
    assert "http" not in text
    assert text.count("<script") == 2
    assert "\\u003cb>login" in text
    assert "&lt;b&gt;login" in text
    assert "&lt;script&gt;\\xff" in text
    for figure in ("1,200", "60.0 %", "team-a", "no time", "raised"):
        assert figure in text, figure
    for drawing in text.split("<svg")[1:]:
        ET.fromstring("<svg" + drawing.split("</svg>")[0] + "</svg>")


def test_a_page_without_results() -> None:
    text = page(Results())
    assert "None." in text


def test_the_view_fits_the_terminal() -> None:
    progress = [Progress("counts", 7, 1000, 500.0, 900, 12, 3400, 0, "", 5)]
    lines = view(results(), progress, 1234, 50)
    assert all(len(line) < 50 for line in lines)
    text = "\n".join(view(results(), progress, 1234, 200))
    assert "ALERT <b>login (team-a)" in text
    assert "counts    batch 7: 1,000 rows in 900 ms, 5 behind, 12 in state" in text
    assert "1,234 lines written" in text
    assert view(Results(), [], 0, 80)


def test_the_summary() -> None:
    assert summary(results())[0] == "1,200 lines counted in 3 windows of 2 services"


def test_stray_times_are_told_and_not_drawn() -> None:
    found = results()
    row = {"service": "cart", "owner": "a", "lines": 3, "requests": 0, "errors": 0, "duration_ms": None}
    found.take(record("logs.counts", {**row, "start": "1999-01-01T00:00:00Z", "end": "1999-01-01T00:01:00Z"}))
    text = page(found)
    assert "lines of 1999-01-01 (3)" in text
    assert "2026-01-01 10:00:00 to 2026-01-01 10:03:00" in text


def test_kinds_of_lines_are_told_with_new_ones_and_bursts() -> None:
    found = results()
    kind = {"service": "cart", "level": "INFO", "sample": "user 7 came"}
    for minute in range(9):
        lines = 200 if minute == 7 else 2
        window = {"start": f"2026-01-01T10:0{minute}:00Z", "template": "user <*> came", "lines": lines}
        found.take(record("logs.templates", {**kind, **window, "is_new": minute == 4}))
    text = page(found)
    _, new, bursts, _ = (part.partition("<h2>")[0] for part in text.split("<h2>")[5:9])
    assert "user &lt;*&gt; came" in new
    assert "2026-01-01 10:04" in new
    assert "2026-01-01 10:07" in bursts
    assert "100 ×" in bursts
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["templates"] == [["cart", "INFO", "user <*> came", "user 7 came", {"0": 2, "1": 2, "2": 2}]]
