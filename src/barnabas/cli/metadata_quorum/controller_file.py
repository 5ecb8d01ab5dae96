"""The server.properties of a controller, as `metadata-quorum add-controller` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.base.ids import Uuid
from barnabas.cli.framework.connecting import command_properties
from barnabas.cli.framework.exits import CommandError, UsageError
from barnabas.client.admin.cluster_calls import Endpoint
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.storage.directories.meta_properties import read_meta_properties

IS_IT = "Is this a valid controller configuration file?"


@dataclass(frozen=True, slots=True)
class ControllerFile:
    """Who is to vote, and where it listens."""

    id: int
    directory_id: Uuid
    endpoints: tuple[Endpoint, ...]


def read_controller(path: str) -> ControllerFile:
    """Refused in Apache Kafka's words if the file is not that of a controller whose folder is formatted."""
    properties = command_properties(path)
    return ControllerFile(_id(properties), _directory_id(_folder(properties)), _endpoints(properties))


def _id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id")
    if text is None:
        raise UsageError(f"node.id not found in configuration file. {IS_IT}")
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise UsageError(f"node.id is {text!r} in configuration file, which is no number. {IS_IT}")
    if int(text) < 0:
        raise UsageError(f"node.id was negative in configuration file. {IS_IT}")
    if "controller" not in properties.get("process.roles", ""):
        raise UsageError(f"process.roles did not contain 'controller' in configuration file. {IS_IT}")
    return int(text)


def _folder(properties: Mapping[str, str]) -> str:
    for name in ("metadata.log.dir", "log.dirs"):
        if name in properties:
            return properties[name].split(",")[0].strip()
    raise UsageError(f"Neither metadata.log.dir nor log.dirs were found. {IS_IT}")


def _directory_id(folder: str) -> Uuid:
    found = read_meta_properties(FolderDisk(), folder)
    if found is None:
        raise CommandError(f"Unable to read meta.properties from {folder}")
    if found.directory_id is None:
        raise CommandError(f"No directory id found in {folder}")
    return found.directory_id


def _endpoints(properties: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Of the controller's listeners: where they are advertised, else where they listen."""
    listeners = {
        one.name: one
        for option in ("listeners", "advertised.listeners")
        for one in map(_endpoint, filter(None, properties.get(option, "").split(",")))
    }
    names = properties.get("controller.listener.names")
    if names is None:
        raise UsageError(f"controller.listener.names was not found. {IS_IT}")
    found = []
    for name in (one.strip().upper() for one in names.split(",")):
        if name not in listeners:
            raise UsageError(f"Cannot find information about controller listener name: {name}")
        found.append(listeners[name])
    return tuple(found)


def _endpoint(text: str) -> Endpoint:
    name, colon, place = text.strip().partition("://")
    host, _, port = place.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        raise UsageError(f"the listener {text.strip()!r} is not NAME://HOST:PORT. {IS_IT}")
    return Endpoint(name.upper(), host.strip("[]") or "localhost", int(port))
