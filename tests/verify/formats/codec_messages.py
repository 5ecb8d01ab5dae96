"""Every message we declare, by name: what the checks of the codec share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import barnabas.protocol
from barnabas.protocol.schema import Message

PACKAGE = Path(barnabas.protocol.__file__).parent
ZOOKEEPER_MODE = {
    name + suffix
    for name in ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown")
    for suffix in ("Request", "Response")
}


def our_messages() -> dict[str, type[Message]]:
    found: dict[str, type[Message]] = {}
    for file in [*PACKAGE.glob("messages/[a-z]*.py"), *PACKAGE.glob("records/[a-z]*.py")]:
        module = import_module(f"barnabas.protocol.{file.parent.name}.{file.stem}")
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[name] = value
    return found


OURS = our_messages()
