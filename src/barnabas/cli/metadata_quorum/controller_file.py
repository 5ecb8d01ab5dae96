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

QUESTION = "Is this a valid controller configuration file?"


@dataclass(frozen=True, slots=True)
class ControllerFile:
    """The id of a voter, and its endpoints."""

    id: int
    directory_id: Uuid
    endpoints: tuple[Endpoint, ...]


def read_controller(path: str) -> ControllerFile:
    """Raises with Apache Kafka's messages if the file is not that of a controller with a formatted folder."""
    properties = command_properties(path)
    return ControllerFile(_id(properties), _directory_id(_folder(properties)), _endpoints(properties))


def _id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id")
    if text is None:
        raise UsageError(f"node.id not found in configuration file. {QUESTION}")
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise UsageError(f"node.id is {text!r} in configuration file, which is not a number. {QUESTION}")
    if int(text) < 0:
        raise UsageError(f"node.id was negative in configuration file. {QUESTION}")
    if "controller" not in properties.get("process.roles", ""):
        raise UsageError(f"process.roles did not contain 'controller' in configuration file. {QUESTION}")
    return int(text)


def _folder(properties: Mapping[str, str]) -> str:
    for name in ("metadata.log.dir", "log.dirs"):
        if name in properties:
            return properties[name].split(",")[0].strip()
    raise UsageError(f"Neither metadata.log.dir nor log.dirs were found. {QUESTION}")


def _directory_id(folder: str) -> Uuid:
    meta_properties = read_meta_properties(FolderDisk(), folder)
    if meta_properties is None:
        raise CommandError(f"Unable to read meta.properties from {folder}")
    if meta_properties.directory_id is None:
        raise CommandError(f"No directory id found in {folder}")
    return meta_properties.directory_id


def _endpoints(properties: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The endpoints of the controller's listeners: the advertised ones, else the listeners themselves."""
    listeners = {
        endpoint.name: endpoint
        for option in ("listeners", "advertised.listeners")
        for endpoint in map(_endpoint, filter(None, properties.get(option, "").split(",")))
    }
    names = properties.get("controller.listener.names")
    if names is None:
        raise UsageError(f"controller.listener.names was not found. {QUESTION}")
    endpoints = []
    for name in (name.strip().upper() for name in names.split(",")):
        if name not in listeners:
            raise UsageError(f"Cannot find information about controller listener name: {name}")
        endpoints.append(listeners[name])
    return tuple(endpoints)


def _endpoint(text: str) -> Endpoint:
    name, colon, address = text.strip().partition("://")
    host, _, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        raise UsageError(f"the listener {text.strip()!r} is not NAME://HOST:PORT. {QUESTION}")
    return Endpoint(name.upper(), host.strip("[]") or "localhost", int(port))
