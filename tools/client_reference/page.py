"""The page: `python -m tools.generate_reference` writes it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator

from barnabas.client import admin, errors, serialization
from barnabas.client.errors.base import ClientError
from tools.client_reference.definitions import (
    Definition,
    Member,
    alias,
    definition,
    function,
    text_of,
    title_of,
)

INTRODUCTION = """\
`barnabas.client` has clients for asyncio, `barnabas.client.sync` the same for programs without a loop.
They work with barnabas and with Apache Kafka. [Use the Python client](../how-to/use-the-client.md) shows
them at work; this page lists what they have.

- [Producer](#producer), [Consumer](#consumer), [App](#app), [Admin](#admin),
  [without asyncio](#without-asyncio)
- [formats](#formats), [data classes](#data-classes), [options](#options), [errors](#errors)

In signatures, `K` and `V` are the types of keys and values: what the formats say, and `bytes` without
formats. A name that ends with `_ms` is in milliseconds, one with `_s` in seconds; timestamps are
milliseconds since 1970. Without a timeout those of the options apply.

```python
{aliases}
```

`**options: Unpack[ProducerOptions]` are keywords, those of the [options](#options).
"""
SYNC = """\
`barnabas.client.sync` has `Producer`, `Consumer` and `Admin` with the same constructors, for `with`
instead of `async with` and `for` instead of `async for`. Their methods block instead of being awaited.
Any thread may call a producer or an admin client; a consumer belongs to one thread at a time. What
differs:
"""
FORMATS = """\
From `barnabas.client.serialization`. A format is given to constructors: as `key_serializer` and
`value_serializer` of a producer, as `key_deserializer` and `value_deserializer` of a consumer. A function
of one argument does, too, and so does an object with `serialize` or `deserialize`.

| format | Python | bytes |
|---|---|---|
"""
BYTES = {
    "STRING": ("`str`", "UTF-8"),
    "SHORT": ("`int`", "2, the highest first"),
    "INTEGER": ("`int`", "4, the highest first"),
    "LONG": ("`int`", "8, the highest first"),
    "FLOAT": ("`float`", "4, IEEE 754"),
    "DOUBLE": ("`float`", "8, IEEE 754"),
    "JSON": ("what the module `json` takes", "JSON as UTF-8, without spaces"),
}
DATA_CLASSES = """\
From `barnabas.client`; those that are not exported there (`Partition`, `Topic`, `Uuid`) are only
returned.
"""
OPTIONS = """\
Options are keywords of the constructors, or a dict with dots as the first argument:
`Producer(linger_ms=5)`, `Producer({"linger.ms": 5})`. An unknown option is an error. Options that are
passed on are TypedDicts: `options: ProducerOptions = {"linger_ms": 5}`, `Producer(**options)`; so are
`ConsumerOptions` and `AdminOptions`. [Configuration](configuration.md#producer-options) has the valid
values.
"""
ERRORS = """\
From `barnabas.client.errors`. All of them are `KafkaError`:

```python
class KafkaError(Exception):
    code: ErrorCode
    message: str
    # Whether a retry may succeed; the clients themselves retry until the time is over.
    retriable: bool
    # What to do about it.
    advice: str
```

`RetriableError`, `AuthenticationError` and `AuthorizationError` are base classes, to catch several. What
lasts too long is a `KafkaTimeoutError`, which is a `TimeoutError` of Python too. `UndeliveredError` also
has `count`, how many records, and `errors`, the first error of each topic or partition. `ClosedError` is
a `RuntimeError`: the client has been closed.

| exception | retriable | advice |
|---|---|---|
"""
# The areas of the admin client, and where what they take and return is defined.
AREAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "topics": ("TopicCalls", ()),
    "configs": ("ConfigCalls", ("barnabas.config.layers",)),
    "records": ("RecordCalls", ()),
    "groups.groups": ("GroupCalls", ("barnabas.client.admin.groups.group_model",)),
    "groups.group_offsets": ("GroupOffsetCalls", ()),
    "transactions": ("TransactionCalls", ()),
    "reassignments": ("ReassignmentCalls", ()),
    "log_dirs": ("LogDirCalls", ()),
    "cluster_calls": ("ClusterCalls", ()),
    "security.acls": ("AclCalls", ("barnabas.security.acls",)),
    "security.quotas": ("QuotaCalls", ()),
    "security.scram": ("ScramCalls", ("barnabas.metadata.scram",)),
    "security.tokens": ("TokenCalls", ()),
}
HIDDEN = ("partition_of", "from_words", "most_significant", "least_significant", "java_hash")
# What every format has.
OF_FORMATS = ("dump", "load", "serialize", "deserialize")
ALIASES = (
    ("barnabas.client.producer.placing", "HeadersGiven"),
    ("barnabas.client.producer.batches", "OnDelivery"),
    ("barnabas.client.types.serializers", "SerializerGiven"),
    ("barnabas.client.types.serializers", "DeserializerGiven"),
    ("barnabas.client.consumer.offsets.committing", "Offsets"),
    ("barnabas.client.consumer.offsets.committing", "OnCommit"),
    ("barnabas.client.admin.configs", "Config"),
    ("barnabas.client.admin.security.quotas", "QuotaEntity"),
)
DATA = (
    ("barnabas.batch.engine.consume", "ConsumerRecord"),
    ("barnabas.client.model", "TopicPartition"),
    ("barnabas.client.model", "OffsetAndMetadata"),
    ("barnabas.client.model", "OffsetAndTimestamp"),
    ("barnabas.client.model", "ConsumerGroupMetadata"),
    ("barnabas.client.model", "TopicPartitionReplica"),
    ("barnabas.client.model", "Node"),
    ("barnabas.client.model", "Topic"),
    ("barnabas.client.model", "Partition"),
    ("barnabas.client.outcomes", "Outcomes"),
    ("barnabas.client.types.statistics", "ProducerStatistics"),
    ("barnabas.client.types.statistics", "ConsumerStatistics"),
    ("barnabas.base.ids", "Uuid"),
)


def client_page(do_not_edit: str) -> str:
    introduction = INTRODUCTION.replace("{aliases}", "\n".join(alias(*each) for each in ALIASES))
    parts = [f"# The Python client\n\n{do_not_edit}\n", introduction]
    parts += _clients()
    parts += _without_asyncio()
    parts += _formats()
    parts.append(f"## Data classes\n\n{DATA_CLASSES}")
    parts += [_data_class(definition(*each), hidden=HIDDEN) for each in DATA]
    parts += _options()
    parts.append("## Errors\n\n" + ERRORS + "".join(_error(name) for name in errors.__all__))
    return "\n".join(parts)


# Classes ----------------------------------------------------------------------------------------------------


def _clients() -> Iterator[str]:
    producer = definition("barnabas.client.producer.producer", "Producer")
    yield _class("Producer", producer)
    yield _data_class(definition("barnabas.batch.engine.gather", "Delivery"), hidden=("index",))
    yield _data_class(definition("barnabas.client.producer.batches", "RecordMetadata"))
    yield _data_class(definition("barnabas.client.producer.delivery", "ProducerRecord"))
    consumer = definition("barnabas.client.consumer.consumer", "Consumer")
    offsets = "barnabas.client.consumer.offsets."
    inherited = [definition(f"{offsets}seeking", "Seeking"), definition(f"{offsets}committing", "Committing")]
    yield _class("Consumer", consumer, *inherited)
    yield _data_class(definition("barnabas.client.consumer.subscription", "RebalanceListener"))
    app = definition("barnabas.client.processing.app", "App")
    yield _class("App", app, hidden=("on_partitions_revoked", "on_partitions_lost"))
    yield _class("Admin", definition("barnabas.client.admin.admin", "Admin"))
    for module, (calls, others) in AREAS.items():
        yield from _area(f"barnabas.client.admin.{module}", calls, others)


def _area(place: str, calls: str, others: Iterable[str]) -> Iterator[str]:
    """A part of the admin client, with what its calls take and return, from `barnabas.client.admin`."""
    found = definition(place, calls)
    yield f"### {title_of(place)}\n"
    yield _methods(found.members())
    if synonyms := found.synonyms():
        yield "".join(f"`{name}` is the same as `{method}`. " for name, method in synonyms).strip() + "\n"
    modules = (place, *others)
    for name in admin.__all__:
        defined = f"barnabas.{admin._MODULES[name]}"
        if defined in modules and name[0].islower():
            yield _methods([function(defined, name)])
        elif defined in modules:
            yield _data_class(definition(defined, name), hidden=("mechanism_name",))


def _class(title: str, *found: Definition, hidden: Iterable[str] = ()) -> str:
    return "\n".join(
        [
            f"## {title}\n",
            f"```python\nfrom barnabas.client import {title}\n```\n",
            f"{found[0].text}\n",
            f"```python\n{found[0].constructor()}\n```\n",
            _methods(member for one in found for member in one.members() if member.name not in hidden),
        ]
    )


def _methods(members: Iterable[Member]) -> str:
    """Each with its signature, and what it does."""
    return "\n".join(f"```python\n{one.signature}\n```\n\n{one.text}\n" for one in members)


def _data_class(found: Definition, hidden: Iterable[str] = ()) -> str:
    """As its declaration, with comments."""
    bases = f"({', '.join(found.bases)})" if found.bases else ""
    lines = [f"class {found.node.name}{bases}:"]
    for member in found.members():
        if member.name not in hidden:
            lines += [f"    # {sentence}" for sentence in member.text.splitlines() if sentence]
            lines += [f"    {line}" for line in member.signature.splitlines()]
    if len(lines) == 1:
        lines += [f"    {parameter}" for parameter in found.parameters()]
    return f"**`{found.node.name}`**: {found.text}\n\n```python\n" + "\n".join(lines) + "\n```\n"


def _without_asyncio() -> Iterator[str]:
    yield f"## Without asyncio\n\n{SYNC}"
    for module, name in (("producer", "Producer"), ("consumer", "Consumer"), ("admin", "Admin")):
        found = definition(f"barnabas.client.sync.{module}", name)
        yield f"### {name} of barnabas.client.sync\n"
        yield f"{found.text}\n"
        yield _methods(found.members())
        if name == "Producer":
            yield _data_class(definition("barnabas.client.sync.producer", "Delivery"))
        same = found.same_as_asynchronous()
        listed = "all other calls" if name == "Admin" else ", ".join(f"`{one}`" for one in same)
        yield f"As above, but blocking: {listed}.\n"


def _formats() -> Iterator[str]:
    rows = [f"| `{name}` | {python} | {written} |" for name, (python, written) in BYTES.items()]
    yield f"## Formats\n\n{FORMATS}" + "\n".join(rows) + "\n"
    for name in serialization.__all__:
        if name not in BYTES:
            module = serialization._MODULES.get(name, "formats")
            found = definition(f"barnabas.client.serialization.{module}", name)
            yield f"### {name}\n\n{found.text}\n"
            if (made := found.constructor()) is not None:
                yield f"```python\n{made}\n```\n"
            hidden = () if name == "Format" else OF_FORMATS
            yield _methods(member for member in found.members() if member.name not in hidden)
    for name in ("Serializer", "Deserializer"):
        yield _data_class(definition("barnabas.client.types.serializers", name))


# Tables -----------------------------------------------------------------------------------------------------


def _options() -> Iterator[str]:
    yield f"## Options\n\n{OPTIONS}"
    titles = {
        "ClientOptions": "All clients",
        "ProducerOptions": "Producer",
        "ConsumerOptions": "Consumer",
        "AdminOptions": "Admin",
    }
    for name, title in titles.items():
        node = definition("barnabas.client.types.options", name).node
        rows = [f"### Options: {title}\n\n| option | type | meaning |\n|---|---|---|"]
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                kind, meaning = text_of(field.annotation), " ".join(ast.literal_eval(text.value).split())
                rows.append(f"| `{text_of(field.target)}` | `{_cell(kind)}` | {_cell(meaning)} |")
        yield "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _error(name: str) -> str:
    kind = getattr(errors, name)
    if not (inspect.isclass(kind) and issubclass(kind, ClientError)):
        return ""
    advice = " ".join((kind.__doc__ or "").split())
    retriable = "yes" if issubclass(kind, errors.RetriableError) else ""
    return f"| `{name}` | {retriable} | {_cell(advice)} |\n"
