"""The configuration of a node as a whole: its mode, roles, listeners, quorum and log directories, and the
rules between them (M-C1, M-J1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import (
    ADVERTISED,
    CONTROLLER_NAMES,
    INTER_BROKER_NAME,
    LISTENERS,
    PROTOCOL_MAP,
    Listeners,
    read_listeners,
    split_list,
)
from barnabas.config.node.quorum import (
    BOOTSTRAP_SERVERS,
    VOTERS,
    Address,
    parse_bootstrap_servers,
    parse_voters,
)
from barnabas.config.node.rules import check_rules, log_dirs
from barnabas.config.node.security import refuse_unbuilt_security
from barnabas.config.node.synonyms import with_both_ids
from barnabas.config.option import Mode
from barnabas.config.scopes import BROKER
from barnabas.config.settings import Settings

ROLES = "process.roles"
BROKER_ROLE = "broker"
CONTROLLER_ROLE = "controller"


@dataclass(frozen=True, slots=True)
class Node:
    """A node's settings, and the values derived from several of them."""

    settings: Settings
    node_id: int
    roles: frozenset[str]
    listeners: Listeners
    voters: Mapping[int, Address]
    bootstrap_servers: tuple[Address, ...]
    log_dirs: tuple[str, ...]

    @property
    def mode(self) -> Mode:
        return self.settings.mode

    @property
    def is_broker(self) -> bool:
        """Whether the node is a broker; in ZooKeeper mode every node is."""
        return self.mode is Mode.ZOOKEEPER or BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.roles

    @property
    def metadata_log_dir(self) -> str:
        return self.settings["metadata.log.dir"] or self.log_dirs[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.settings.warnings


def mode_of(given: Mapping[str, object]) -> Mode:
    """A file without process.roles means ZooKeeper mode."""
    roles = given.get(ROLES)
    return Mode.ZOOKEEPER if roles is None or not str(roles).strip() else Mode.KRAFT


def read_node(given: Mapping[str, object]) -> Node:
    """Parse and check the configuration that a node starts with; raises ConfigError for the first error."""
    node = parse_node(given)
    refuse_unbuilt_security(node.settings)
    return node


def parse_node(given: Mapping[str, object]) -> Node:
    """Like `read_node`, for tools that start no node: accepts security options that are not implemented."""
    settings = BROKER.parse(with_both_ids(given), mode_of(given))
    roles = _roles(settings)
    node = Node(
        settings=settings,
        node_id=settings["node.id"],
        roles=roles,
        listeners=read_listeners(settings),
        voters=parse_voters(settings[VOTERS]),
        bootstrap_servers=parse_bootstrap_servers(settings[BOOTSTRAP_SERVERS]),
        log_dirs=log_dirs(settings),
    )
    _check_id(node)
    check_rules(settings)
    for broken in (*_role_rules(node), *_listener_rules(node)):
        raise ConfigError(broken)
    return node


def _roles(settings: Settings) -> frozenset[str]:
    roles = settings[ROLES]
    if len(set(roles)) != len(roles):
        raise ConfigError(f"Duplicate role names found in `{ROLES}`: {', '.join(roles)}")
    return frozenset(roles)


def _check_id(node: Node) -> None:
    settings = node.settings
    if settings["node.id"] != settings["broker.id"]:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    if node.mode is Mode.KRAFT:
        return
    if not settings["zookeeper.connect"]:
        raise ConfigError("Missing required configuration `zookeeper.connect` which has no default value.")
    most = settings["reserved.broker.max.id"]
    if not settings["broker.id.generation.enable"]:
        if node.node_id < 0:
            raise ConfigError("broker.id must be greater than or equal to 0")
    elif not -1 <= node.node_id <= most:
        raise ConfigError(
            "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id",
            allowed=f"-1 to {most}",
        )


def _role_rules(node: Node) -> Iterator[str]:
    if node.mode is Mode.ZOOKEEPER:
        yield from _zookeeper_rules(node)
        return
    if not node.voters and not node.bootstrap_servers:
        yield (
            f"If using {ROLES}, either {BOOTSTRAP_SERVERS} must contain the set of bootstrap controllers or "
            f"{VOTERS} must contain a parseable set of controllers."
        )
    if node.is_controller:
        yield from _controller_rules(node)
    else:
        yield from _broker_only_rules(node)


def _controller_rules(node: Node) -> Iterator[str]:
    listeners = node.listeners
    if not node.is_broker and len(listeners.advertised_controllers) != len(listeners.listeners):
        yield (
            f"The {LISTENERS} config must only contain KRaft controller listeners from {CONTROLLER_NAMES} "
            f"when {ROLES}={CONTROLLER_ROLE}"
        )
    if node.voters and node.node_id not in node.voters:
        yield (
            f"If {ROLES} contains the 'controller' role, the node id {node.node_id} must be included "
            f"in the set of voters {VOTERS}={_shown(node.voters)}"
        )
    role = f"appearing in the '{LISTENERS}' configuration when running the KRaft controller role"
    if not listeners.advertised_controllers:
        yield f"{CONTROLLER_NAMES} must contain at least one value {role}"
    opened = {end.listener_name for end in listeners.listeners}
    if not opened.issuperset(listeners.controller_names):
        yield f"{CONTROLLER_NAMES} must only contain values {role}"


def _broker_only_rules(node: Node) -> Iterator[str]:
    listeners, just_broker = node.listeners, "when running KRaft with just the broker role"
    if node.node_id in node.voters:
        yield (
            f"If {ROLES} contains just the 'broker' role, the node id {node.node_id} must not be included "
            f"in the set of voters {VOTERS}={_shown(node.voters)}"
        )
    if not listeners.controller_names:
        yield f"{CONTROLLER_NAMES} must contain at least one value {just_broker}"
    if listeners.controllers:
        yield (
            f"{CONTROLLER_NAMES} must not contain a value appearing in the '{LISTENERS}' configuration "
            f"{just_broker}"
        )
    for name in listeners.controller_names:
        if name.upper() not in listeners.protocols:
            yield (
                f"Controller listener with name {name.upper()} defined in {CONTROLLER_NAMES} not found in "
                f"{PROTOCOL_MAP}  (an explicit security mapping for each controller listener is required if "
                f"{PROTOCOL_MAP} is non-empty, or if there are security protocols other than PLAINTEXT in "
                "use)"
            )


def _shown(voters: Mapping[int, Address]) -> str:
    return f"Set({', '.join(map(str, voters))})"


def _zookeeper_rules(node: Node) -> Iterator[str]:
    settings, names = node.settings, node.listeners.controller_names
    if settings["zookeeper.metadata.migration.enable"]:
        yield "zookeeper.metadata.migration.enable is set, but migration from ZooKeeper is not built yet"
    if names:
        yield f"{CONTROLLER_NAMES} must be empty when not running in KRaft mode: [{', '.join(names)}]"
    name = settings["control.plane.listener.name"]
    if name is not None:
        yield from _control_plane_rules(node, name.upper())


def _control_plane_rules(node: Node, name: str) -> Iterator[str]:
    option, listeners = "control.plane.listener.name", node.listeners
    if name not in listeners.protocols:
        yield f"Listener with {name} defined in {option} not found in {PROTOCOL_MAP}."
    advertised = [end.listener_name for end in listeners.advertised_to_clients]
    if name not in advertised:
        yield (
            f"{option} must be a listener name defined in {ADVERTISED}. The valid options based on currently "
            f"configured listeners are {','.join(advertised)}"
        )
    if name == listeners.inter_broker_name:
        yield (
            f"{option}, when defined, should have a different value from the inter broker listener name. "
            f"Currently they both have the value ListenerName({name})"
        )


def _listener_rules(node: Node) -> Iterator[str]:
    listeners = node.listeners
    if node.is_broker:
        yield from _advertised_rules(node)
    # A controller that listens on 0.0.0.0 announces its own address, but an advertised one must be reachable.
    is_configured = node.settings[ADVERTISED] is not None
    for end in listeners.advertised if is_configured else listeners.advertised_to_clients:
        if end.host == "0.0.0.0":  # compared with, not bound  # nosec B104
            yield (
                f"{ADVERTISED} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            )
    known = {*(end.listener_name for end in listeners.listeners), *listeners.controller_names}
    for name in split_list(node.settings.get("early.start.listeners")):
        if name.upper() not in known:
            yield (
                f"early.start.listeners contains listener {name.upper()}, but this is not contained in "
                f"{LISTENERS} or {CONTROLLER_NAMES}"
            )


def _advertised_rules(node: Node) -> Iterator[str]:
    listeners = node.listeners
    advertised = [end.listener_name for end in listeners.advertised_to_clients]
    if not advertised:
        hint = "" if node.mode is Mode.ZOOKEEPER else f" Perhaps all listeners appear in {CONTROLLER_NAMES}?"
        yield f"There must be at least one broker advertised listener.{hint}"
    valid = f"The valid options based on currently configured listeners are {','.join(advertised)}"
    if listeners.inter_broker_name not in advertised:
        yield f"{INTER_BROKER_NAME} must be a listener name defined in {ADVERTISED}. {valid}"
    opened = [end.listener_name for end in listeners.listeners]
    if not set(advertised) <= set(opened):
        yield (
            f"{ADVERTISED} listener names must be equal to or a subset of the ones defined in {LISTENERS}. "
            f"Found {','.join(advertised)}. The valid options based on the current configuration "
            f"are {','.join(opened)}"
        )
