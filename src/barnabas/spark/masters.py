"""Masters of Spark: what may be given as one, and whether anybody is there.

Spark itself says little of a wrong one, and late: Java exits, or a context is stopped after a minute.

What lives here: what is refused before Java is started.  What may not: sessions.
"""

from __future__ import annotations

import os
import re
import socket
import time

FORMS = "local, local[N], local[*], spark://HOST:PORT[,HOST:PORT...], yarn or k8s://HOST:PORT"
STANDALONE = "spark://"
CONNECT = "sc://"
# What Spark reads the place of YARN from.
YARN_SETTINGS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# One that is just being started is waited for.
PATIENCE_S = 10.0
ANSWER_TIMEOUT_S = 5.0
ASK_EVERY_S = 0.5

# The second number says how often a task may fail.
LOCAL = re.compile(r"local(?:\[([1-9]\d*|\*)(?:\s*,\s*[1-9]\d*)?\])?")
# Workers on this machine, each with so many cores and so much memory: for those who test Spark.
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_KUBERNETES = re.compile(r"k8s://\S+")
_MAX_PORT = 65535


class MasterError(RuntimeError):
    """Spark cannot run where it was told to."""


def check(master: str) -> None:
    """MasterError if this is no master, whatever machines there are."""
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
    """Hosts and ports of a standalone master and those that stand by; none if one of them is wrong."""
    found = [_ADDRESS.fullmatch(one) for one in master.removeprefix(STANDALONE).split(",")]
    parts = [(one[1].strip("[]"), int(one[2])) for one in found if one is not None]
    is_right = len(parts) == len(found) and all(0 < port <= _MAX_PORT for _, port in parts)
    return parts if is_right else []


def find(master: str) -> None:
    """MasterError if a master that was checked cannot be asked from here."""
    if master == "yarn" and not any(os.environ.get(name) for name in YARN_SETTINGS):
        raise MasterError(f"yarn: set {' or '.join(YARN_SETTINGS)} to the folder of the cluster's settings")
    if master.startswith(STANDALONE):
        _wait_for_one(master, addresses(master))


def _wait_for_one(master: str, places: list[tuple[str, int]]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _ask(places)
        except OSError as error:
            if time.monotonic() >= end_s:
                why = error.strerror or str(error) or type(error).__name__
                raise MasterError(
                    f"{master}: no master of Spark's answers ({why}); start it, or give another"
                ) from error
        time.sleep(ASK_EVERY_S)


def _ask(places: list[tuple[str, int]]) -> None:
    """The error of the last one if none can be connected to."""
    failure = OSError("no address")
    for place in places:
        try:
            socket.create_connection(place, ANSWER_TIMEOUT_S).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure
