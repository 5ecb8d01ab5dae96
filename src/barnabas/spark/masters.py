"""Spark masters: which URLs are valid, and whether the master can be reached.

Spark itself reports a wrong one late and unclearly: Java exits, or a context is stopped after a minute.  So
it is checked before Java is started.
"""

from __future__ import annotations

import os
import re
import socket
import time

FORMS = "local, local[N], local[*], spark://HOST:PORT[,HOST:PORT...], yarn or k8s://HOST:PORT"
STANDALONE = "spark://"
CONNECT = "sc://"
# From these Spark reads the address of YARN.
YARN_SETTINGS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# A master that is just starting is waited for.
PATIENCE_S = 10.0
CONNECT_TIMEOUT_S = 5.0
RETRY_INTERVAL_S = 0.5

# The second number is the maximum number of task failures.
LOCAL = re.compile(r"local(?:\[([1-9]\d*|\*)(?:\s*,\s*[1-9]\d*)?\])?")
# Workers on this machine, each with this many cores and this much memory: for tests of Spark.
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_KUBERNETES = re.compile(r"k8s://\S+")
_MAX_PORT = 65535


class MasterError(RuntimeError):
    """Spark cannot run on the given master."""


def check(master: str) -> None:
    """Raise MasterError if this is not a valid master URL."""
    if master.startswith(CONNECT):
        raise MasterError(f"{master}: Spark Connect is not supported; give {FORMS}")
    if master.startswith(STANDALONE):
        is_known = bool(addresses(master))
    else:
        patterns = (LOCAL, _LOCAL_CLUSTER, _KUBERNETES)
        is_known = master == "yarn" or any(pattern.fullmatch(master) for pattern in patterns)
    if not is_known:
        raise MasterError(f"{master}: there is no such master of Spark; give {FORMS}")


def addresses(master: str) -> list[tuple[str, int]]:
    """Return hosts and ports of a standalone master and its standbys; empty if one of them is invalid."""
    matches = [_ADDRESS.fullmatch(address) for address in master.removeprefix(STANDALONE).split(",")]
    parts = [(match[1].strip("[]"), int(match[2])) for match in matches if match is not None]
    is_right = len(parts) == len(matches) and all(0 < port <= _MAX_PORT for _, port in parts)
    return parts if is_right else []


def find(master: str) -> None:
    """Raise MasterError if a valid master cannot be reached from here."""
    if master == "yarn" and not any(os.environ.get(name) for name in YARN_SETTINGS):
        raise MasterError(f"yarn: set {' or '.join(YARN_SETTINGS)} to the folder of the cluster's settings")
    if master.startswith(STANDALONE):
        _wait_for_one(master, addresses(master))


def _wait_for_one(master: str, places: list[tuple[str, int]]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _connect(places)
        except OSError as error:
            if time.monotonic() >= end_s:
                why = error.strerror or str(error) or type(error).__name__
                raise MasterError(
                    f"{master}: no Spark master responds ({why}); start it, or give another"
                ) from error
        time.sleep(RETRY_INTERVAL_S)


def _connect(places: list[tuple[str, int]]) -> None:
    """Raise the error of the last address if none can be connected to."""
    failure = OSError("no address")
    for place in places:
        try:
            socket.create_connection(place, CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure
