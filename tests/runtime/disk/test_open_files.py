from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from barnabas.runtime.disk.descriptor_cache import OPEN_FILES_MAX
from barnabas.runtime.disk.open_files import OTHERS, UNLIMITED, raise_limit, share


@pytest.mark.parametrize("limit", [64, 256, 1024, 4096, 20_000, UNLIMITED])
def test_files_connections_and_other_descriptors_share_the_limit(limit: int) -> None:
    files, connections_below = share(limit)
    assert files + OTHERS + connections_below == limit
    assert 1 <= files <= OPEN_FILES_MAX
    assert files <= limit // 4


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    script = (
        "import resource; from barnabas.runtime.disk.open_files import raise_limit;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard));"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    returned, soft, hard = map(int, subprocess.check_output([sys.executable, "-c", script]).split())
    assert returned == soft
    assert hard in (soft, resource.RLIM_INFINITY)
    assert returned > 100


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1000))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_limit() == 100
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert raise_limit() == UNLIMITED
