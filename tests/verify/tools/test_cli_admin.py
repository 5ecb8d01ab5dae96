"""Our admin tools against Apache Kafka: the sessions that its own tools were recorded in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sessions.differences import Differences
from tests.cli.sessions.replay import replay, session
from tests.cli.sessions.sessions import Places
from tests.verify.nodes.apache_broker import apache_broker

NAMES = ("topics", "configs", "acls", "records", "moves")


@pytest.mark.parametrize("name", NAMES)
def test_our_tools_answer_as_apache_kafkas_do(oracle: Callable[..., Any], tmp_path: Path, name: Any) -> None:
    recorded = session(name)
    files = tmp_path / "files"
    files.mkdir()
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", recorded.settings) as broker:
        controller = f"localhost:{broker.port + 101}"
        replay(recorded, Places(broker.bootstrap, controller, files), Differences())
