"""From user-given options, a dict with dots or keywords with underscores, to validated settings.

The options themselves are defined in `config`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.config import ADMIN, CONSUMER, PRODUCER, OptionTable, Settings, Type
from barnabas.config.clients import consumer_settings, producer_settings
from barnabas.config.errors import ConfigError
from barnabas.config.node.security import refuse_unbuilt_security

# Programs pass functions or objects for these, so they have no default in a file.
_PYTHON_DEFAULTS = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
BYTES = "bytes"


def _gathered(
    table: OptionTable, config: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> dict[str, object]:
    known = table.options()
    by_keyword = {name.replace(".", "_"): name for name in known}
    given: dict[str, object] = dict(config or {})
    for config_name in given:
        if config_name not in known and not is_client_option(config_name):
            raise _unknown(table, config_name, known)
    for keyword, value in keywords.items():
        name = by_keyword.get(keyword)
        if name is None:
            raise _unknown(table, keyword, by_keyword)
        if value is None:
            continue
        if name in given:
            raise ConfigError(f"{name} is given twice: in the dict, and as the keyword {keyword}")
        given[name] = value
    for name in _PYTHON_DEFAULTS:
        if name in known:
            given.setdefault(name, BYTES)
    # Brokers show it in lists of groups and in their logs.
    given.setdefault("client.id", f"barnabas-{table.scope}")
    return {name: _as_text(table, name, value) for name, value in given.items() if value is not None}


def is_client_option(name: str) -> bool:
    """Whether any client has the option: a dict, like a properties file, may be shared by several clients."""
    return any(table.option(name) is not None for table in (PRODUCER, CONSUMER, ADMIN))


def _unknown(table: OptionTable, wrong: str, known: Iterable[str]) -> ConfigError:
    import difflib  # Only needed when something is wrong.

    names = list(known)
    nearest = difflib.get_close_matches(wrong, names, n=1)
    if nearest:
        hint = f"did you mean {nearest[0]}?"
    else:
        example = next(name for name in names if name in ("bootstrap.servers", "bootstrap_servers"))
        hint = f"options have Apache Kafka's names, such as {example}"
    client = "an admin client" if table is ADMIN else f"a {table.scope}"
    return ConfigError(f"{wrong} is not an option of {client}; {hint}")


def _as_text(table: OptionTable, name: str, value: Any) -> object:
    """`acks=1` means "1": a string option also accepts a number."""
    option = table.option(name)
    if option is not None and option.type is Type.STRING and isinstance(value, int):
        return str(value)
    if option is not None and option.type is Type.LIST and callable(value):
        return [value]
    return value


def admin_options(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> Settings:
    settings = ADMIN.parse(_gathered(ADMIN, config, keywords))
    servers, controllers = settings["bootstrap.servers"], settings["bootstrap.controllers"]
    if not servers and not controllers:
        raise ConfigError("You must set either bootstrap.servers or bootstrap.controllers")
    if servers and controllers:
        raise ConfigError("You cannot set both bootstrap.servers and bootstrap.controllers")
    refuse_unbuilt_security(settings)
    return settings


def producer_options(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> Settings:
    return producer_settings(_gathered(PRODUCER, config, keywords))


def consumer_options(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> Settings:
    return consumer_settings(_gathered(CONSUMER, config, keywords))
