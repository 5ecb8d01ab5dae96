"""What every test shares."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=40, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", parent=hypothesis.settings.get_profile("ci"), max_examples=2000)
hypothesis.settings.load_profile("ci")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of recorded facts that tests compare with."""
    return DATA
