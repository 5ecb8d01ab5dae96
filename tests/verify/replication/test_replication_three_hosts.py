"""The page about three hosts is followed word for word, on hosts that are namespaces.  M-D9, M-C7, M-J2"""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

from tests.docs.pages import Written, steps
from tests.verify.conftest import PROJECT
from tests.verify.replication.page_hosts import page_reader

PAGE = PROJECT / "docs" / "how-to" / "run-on-three-hosts.md"


def test_the_page_works(tmp_path: Path) -> None:
    with page_reader(tmp_path) as reader:
        reader.follow(PAGE.read_text("utf-8"))


def test_the_unit_is_right(tmp_path: Path) -> None:
    (unit,) = [
        step.text
        for step in steps(PAGE.read_text("utf-8"))
        if isinstance(step, Written) and step.name.endswith(".service")
    ]
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(unit)
    assert set(parsed) == {"DEFAULT", "Unit", "Service", "Install"}
    assert parsed["Service"]["ExecStart"].startswith("/opt/barnabas/bin/barnabas server-start /etc/barnabas/")
    assert int(parsed["Service"]["TimeoutStopSec"]) >= 300
    if shutil.which("systemd-analyze") is None:
        return
    # It also checks that the program is there.
    here = unit.replace("/opt/barnabas/bin/barnabas", shutil.which("sh") or "/bin/sh")
    path = tmp_path / "barnabas.service"
    path.write_text(here, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
