"""`barnabas configs --alter`: set or delete options, quotas and credentials."""

from __future__ import annotations

import re
from argparse import Namespace

from barnabas.cli.configs.describe import QUOTA_TYPES, RESOURCE_TYPES, quotas_of, resource_config
from barnabas.cli.configs.entities import CLIENTS, IPS, LOGGERS, USERS, Entities
from barnabas.cli.framework.connecting import command_properties
from barnabas.cli.framework.exits import CommandError, UsageError
from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource
from barnabas.client.admin.security.quotas import QuotaAlteration
from barnabas.client.admin.security.scram import ScramDeletion, ScramUpsertion
from barnabas.client.sync import Admin
from barnabas.metadata.scram import DEFAULT_ITERATIONS, MIN_ITERATIONS, ScramMechanism

MECHANISMS = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
CLIENT_QUOTAS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
IP_QUOTAS = frozenset({"connection_creation_rate"})
# A comma or an equals sign within brackets belongs to the value.
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_KEY = re.compile(r"[a-zA-Z0-9._-]*")
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.S)


def alter(admin: Admin, entities: Entities, options: Namespace) -> None:
    added = values_to_add(options)
    deleted = [name.strip() for text in options.delete_config or () for name in text.split(",")]
    kind, name = entities.first_type, entities.names[0]
    if kind in (USERS, CLIENTS):
        alter_user_or_client(admin, entities, added, deleted)
    elif kind == IPS:
        unknown = [key for key in (*added, *deleted) if key not in IP_QUOTAS]
        if unknown:
            raise UsageError(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        alter_quotas(admin, entities, added, deleted)
    else:
        alter_options(admin, kind, name, added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def values_to_add(options: Namespace) -> dict[str, str]:
    """The values of --add-config and --add-config-file."""
    added = command_properties(options.add_config_file)
    if options.add_config is not None:
        for text in re.split(f",{_OUTSIDE_BRACKETS}", options.add_config):
            pair = re.split(rf"\s*=\s*{_OUTSIDE_BRACKETS}", text)
            if len(pair) != 2:
                raise UsageError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the "
                    'format "key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            added[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    for key in added:
        if _KEY.fullmatch(key) is None:
            raise UsageError(f"Invalid character found for config key: {key}")
    return added


def alter_options(admin: Admin, kind: str, name: str, added: dict[str, str], deleted: list[str]) -> None:
    present = {entry.name for entry in resource_config(admin, kind, name)}
    if kind == LOGGERS:
        unknown = [key for key in (*deleted, *added) if key not in present]
        if unknown:
            raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}")
    _refuse_missing(deleted, present)
    changes = [AlterConfig(key, value) for key, value in added.items()]
    changes += [AlterConfig(key, "", AlterOperation.DELETE) for key in deleted]
    admin.incremental_alter_configs({ConfigResource(RESOURCE_TYPES[kind], name): changes}).raise_first()


def _refuse_missing(deleted: list[str], present: set[str]) -> None:
    missing = [key for key in deleted if key not in present]
    if missing:
        raise CommandError(f"Invalid config(s): {','.join(missing)}")


def alter_user_or_client(admin: Admin, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    with_client = CLIENTS in entities.types
    allowed = CLIENT_QUOTAS if with_client else CLIENT_QUOTAS | set(MECHANISMS)
    message = f"Only quota configs can be {{}} for '{CLIENTS}'"
    if not with_client:
        message = f"Only quota and SCRAM credential configs can be {{}} for '{USERS}'"
    for verb, names in (("added", list(added)), ("deleted", deleted)):
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise UsageError(
                f"{message.format(verb)} using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
    credentials = [name for name in (*added, *deleted) if name in MECHANISMS]
    if not credentials:
        alter_quotas(admin, entities, added, deleted)
        return
    if entities.is_default:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    if len(credentials) < len(added) + len(deleted):
        raise UsageError(
            f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' using "
            "--bootstrap-server."
        )
    alter_credentials(admin, entities.names[0], added, deleted)


def alter_credentials(admin: Admin, user: str, added: dict[str, str], deleted: list[str]) -> None:
    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(user, MECHANISMS[name]) for name in deleted
    ]
    for name, text in added.items():
        iterations, password = _credential(name, text)
        changes.append(ScramUpsertion(user, MECHANISMS[name], password, iterations))
    admin.alter_user_scram_credentials(changes).raise_first()


def _credential(name: str, text: str) -> tuple[int, str]:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        # The message omits the text: it may contain a password.
        raise UsageError(f"Invalid credential property {name}: write [iterations=8192,password=...]")
    iterations = int(match[1]) if match[1] not in (None, "", "-1") else DEFAULT_ITERATIONS
    if iterations < MIN_ITERATIONS:
        raise UsageError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {name}"
        )
    return iterations, match[2]


def alter_quotas(admin: Admin, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    present = {key for values in quotas_of(admin, entities).values() for key in values}
    _refuse_missing(deleted, present)
    changes: dict[str, float | None] = {key: _rate(key, text) for key, text in added.items()}
    changes.update(dict.fromkeys(deleted))
    entity = tuple(
        sorted(
            (QUOTA_TYPES[kind], name or None)
            for kind, name in zip(entities.types, entities.names, strict=True)
        )
    )
    outcomes = admin.alter_client_quotas([QuotaAlteration(entity, changes)])
    outcomes.raise_first()


def _rate(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None
