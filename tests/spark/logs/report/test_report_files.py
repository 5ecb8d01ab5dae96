"""A report of log files, without a broker and without Spark.  # M-I3"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.spark.logs.config import Config
from barnabas.spark.logs.report.files import MOST_WINDOWS, FileResults


def nginx(folder: Path) -> None:
    folder.mkdir()
    lines = []
    for minute in range(120):
        status = 502 if minute >= 110 else 200
        for second in range(30):
            when = f"01/May/2024:{10 + minute // 60}:{minute % 60:02d}:{second:02d} +0000"
            lines.append(f'10.0.0.{second} - - [{when}] "GET /a/{second} HTTP/1.1" {status} 5 "-" "curl/8"')
    (folder / "access.log").write_text("\n".join(lines))
    syslog = [f"May  1 10:{n:02d}:00 web sshd[{n}]: Failed password for root" for n in range(60)]
    (folder / "syslog.1.gz").write_bytes(gzip.compress("\n".join(syslog).encode()))
    (folder / "wtmp").write_bytes(b"\0" * 100)
    (folder / "empty").touch()


def test_a_folder_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nginx(tmp_path / "logs")
    page = tmp_path / "page.html"
    assert main(["logs", "report", str(tmp_path / "logs"), "--out", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{page}: 3,660 lines of 2 services, 0 unreadable\n"
    assert said.err.splitlines() == [
        f"barnabas logs: {tmp_path / 'logs' / 'wtmp'} is binary, not lines of text: left out"
    ]
    text = page.read_text("utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    lines = [sum(service[1] for service in services) for _, services in data["windows"]]
    assert sum(lines) == 3_660
    assert {template[2] for template in data["templates"]} == {"GET <*> HTTP/<*>", "Failed password for root"}
    assert "error-rate" in text.split("<h2>Alerts</h2>")[1].split("<h2>")[0]


def test_windows_grow_with_the_time_that_files_cover(tmp_path: Path) -> None:
    nginx(tmp_path / "logs")
    found = FileResults(Config())
    found.add(str(tmp_path / "logs" / "access.log"))
    results = found.finished()
    assert results.lines == 3_600
    assert results.totals["access"].errors == 300
    assert results.windows <= MOST_WINDOWS
    (first, counts), *_ = results.newest_windows()
    assert first == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert (counts[0].end - first).total_seconds() == 300
    (alert,) = results.alerts
    assert (alert.rule, alert.state, alert.since) == (
        "error-rate",
        "raised",
        datetime(2024, 5, 1, 12, tzinfo=UTC),
    )


def test_files_that_are_not_there_keep_no_other_from_the_page(tmp_path: Path) -> None:
    nginx(tmp_path / "logs")
    page = tmp_path / "page.html"
    assert main(["logs", "report", str(tmp_path / "no"), str(tmp_path / "logs"), "--out", str(page)]) == 5
    assert "access" in page.read_text("utf-8")
    assert main(["logs", "report", str(tmp_path / "logs"), "--out", str(tmp_path / "page.html" / "x")]) != 0


def test_a_report_needs_no_spark() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import barnabas.spark.logs.report.files, barnabas.spark.logs.config"
    subprocess.run([sys.executable, "-c", program], check=True)
