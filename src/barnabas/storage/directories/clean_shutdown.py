"""The clean shutdown file, `.kafka_cleanshutdown`: logs of its directory need no recovery.

It contains the broker epoch, so that a broker can prove a clean shutdown when it registers again (KIP-966);
-1 in ZooKeeper mode.
"""

from __future__ import annotations

import json

from barnabas.runtime.disk.disk import Disk

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1
MAX_BROKER_EPOCH = 2**63 - 1
MAX_MARK_BYTES = 4096


def _path(log_dir: str) -> str:
    return f"{log_dir}/{CLEAN_SHUTDOWN_FILE}"


def write_clean_shutdown(disk: Disk, log_dir: str, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.write_atomically(_path(log_dir), content.encode())


def has_clean_shutdown(disk: Disk, log_dir: str) -> bool:
    """Whether the file exists; earlier releases left it empty."""
    return disk.exists(_path(log_dir))


def clean_shutdown_epoch(disk: Disk, log_dir: str) -> int | None:
    """The broker epoch in the file; None if the file is missing or cannot be read."""
    path = _path(log_dir)
    try:
        if disk.size(path) > MAX_MARK_BYTES:
            return None
        content = json.loads(disk.read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    if not isinstance(epoch, int) or isinstance(epoch, bool):
        return None
    return epoch if NO_BROKER_EPOCH <= epoch <= MAX_BROKER_EPOCH else None


def remove_clean_shutdown(disk: Disk, log_dir: str) -> None:
    """Remove the file durably, before the first log is opened (KAFKA-10471).

    If a power loss could undo the removal, the next start would trust logs that were being written.
    """
    if disk.exists(_path(log_dir)):
        disk.remove(_path(log_dir))
        disk.sync_folder(log_dir)
