"""The reference page of the test kit, from signatures, docstrings and tables; see `generate_reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from _pytest.fixtures import FixtureFunctionDefinition

from barnabas.testing.kit import plugin
from barnabas.testing.kit.asynchronous import AsyncCluster, AsyncGroup, AsyncKafka, AsyncTopic
from barnabas.testing.kit.clock import ClusterClock
from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.container import KafkaContainer
from barnabas.testing.kit.errors import KitError, WaitTimeoutError
from barnabas.testing.kit.faults.faults import Faults
from barnabas.testing.kit.faults.outages import Effect, Outage
from barnabas.testing.kit.faults.rules import Fault
from barnabas.testing.kit.pipelines import PipelineTest
from barnabas.testing.kit.profile import options_for
from barnabas.testing.kit.shared import Kafka
from barnabas.testing.kit.snapshots import Snapshot
from barnabas.testing.kit.topics.fixture_files import copy_topic
from barnabas.testing.kit.topics.groups import Group
from barnabas.testing.kit.topics.records import AvroCodec, BytesCodec, JsonCodec, TestRecord
from barnabas.testing.kit.topics.topics import Topic, Topics
from barnabas.testing.kit.waiting import wait_for
from barnabas.testing.simulation import ApplicationWorld, given_seeds

ABOUT = """\
The public names are those of `barnabas.testing` (and `barnabas.testing.simulation`). How they are used:
[test your application](../how-to/test-your-application.md),
[make things go wrong](../how-to/make-things-go-wrong.md).
"""
# In the order in which a reader meets them.
CLASSES: list[type] = [
    Kafka,
    Cluster,
    Topic,
    TestRecord,
    Group,
    Faults,
    Fault,
    Effect,
    Outage,
    ClusterClock,
    Snapshot,
    JsonCodec,
    BytesCodec,
    AvroCodec,
    KafkaContainer,
    PipelineTest,
    ApplicationWorld,
    KitError,
    WaitTimeoutError,
]
TWINS: list[type] = [AsyncKafka, AsyncCluster, AsyncTopic, AsyncGroup]
FUNCTIONS: list[Callable[..., Any]] = [wait_for, copy_topic, given_seeds]
# Those that tests do not make themselves.
_GIVEN = {Kafka, Topic, TestRecord, Group, Faults, Fault, Effect, Outage, ClusterClock, Snapshot}
_GIVEN |= {ApplicationWorld, KitError, WaitTimeoutError}
# For the other parts of the kit.
_INSIDE = {
    Cluster: {"running", "is_known"},
    Kafka: {"clean", "clock", "faults"},
    Faults: {"coordinator_of"},
    Fault: {"release", "struck", "wants", "strikes", "is_partial"},
    Snapshot: {"of", "restore"},
    KafkaContainer: {"get_container_host_ip"},
    ApplicationWorld: {"run", "digest"},
}


def kit_page(do_not_edit: str) -> str:
    parts = [f"# The test kit\n\n{do_not_edit}\n", ABOUT, _fixtures(), _marker(), _command_line(), _profile()]
    parts += [_class(each) for each in CLASSES]
    parts.append("## Functions\n\n| | |\n|---|---|\n" + "".join(_row(each) for each in FUNCTIONS))
    parts.append(_twins())
    return "\n".join(parts)


# pytest -----------------------------------------------------------------------------------------------------


def _fixtures() -> str:
    rows = [
        f"| `{name}` | {_text(inspect.unwrap(fixture))} |\n"
        for name, fixture in vars(plugin).items()
        if isinstance(fixture, FixtureFunctionDefinition) and not name.startswith("_")
    ]
    return "## Fixtures of pytest\n\n| fixture | |\n|---|---|\n" + "".join(rows)


class _Recorded:
    """Stands in for pytest: what the plugin declares."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, str]] = {}
        self.lines: list[str] = []

    def getgroup(self, name: str) -> _Recorded:
        return self

    def addoption(self, name: str, **declared: str) -> None:
        self.options[name] = declared

    def addinivalue_line(self, name: str, line: str) -> None:
        self.lines.append(line)


def _marker() -> str:
    recorded: Any = _Recorded()
    plugin.pytest_configure(recorded)
    signature, _, meaning = recorded.lines[0].partition(": ")
    rows = [f"| `{name}` | {text} |\n" for name, text in _arguments(Cluster).items()]
    return (
        f"## The marker\n\n`@pytest.mark.{signature}`: {meaning}.\n\n"
        "Its arguments are those of `Cluster`:\n\n"
        f"| argument | default |\n|---|---|\n{''.join(rows)}"
    )


def _arguments(kind: type) -> dict[str, str]:
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: f"`{each.default!r}`" for each in parameters}


def _command_line() -> str:
    recorded: Any = _Recorded()
    plugin.pytest_addoption(recorded)
    rows = [
        f"| `{name} {declared['metavar']}` | {declared['help']} |\n"
        for name, declared in recorded.options.items()
    ]
    return f"## Options of pytest\n\n| option | |\n|---|---|\n{''.join(rows)}"


def _profile() -> str:
    rows = [f"| `{name}` | {value} |\n" for name, value in options_for(3, {}).items()]
    return (
        "## What differs from Apache Kafka's defaults\n\nFor three brokers; options that are given win.\n\n"
        f"| option | value |\n|---|---|\n{''.join(rows)}"
    )


# Classes ----------------------------------------------------------------------------------------------------


def _class(kind: type) -> str:
    lines = [f"## {kind.__name__}\n"]
    if kind not in _GIVEN:
        lines.append(f"`{kind.__name__}{_parameters(kind)}`\n")
    lines.append(_prose(kind))
    if kind is Outage:
        lines.append("Also everything of `Effect`.\n")
    rows = "".join(_members(kind))
    if rows:
        lines.append(f"| | |\n|---|---|\n{rows}")
    return "\n".join(lines)


def _members(kind: type) -> Iterator[str]:
    bases = [kind, Topics] if kind is Cluster else [kind]
    seen: set[str] = set()
    for owner in bases:
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen or name in _INSIDE.get(kind, ()):
                continue
            seen.add(name)
            if isinstance(member, property):
                yield f"| `{name}` | {_text(member)} |\n"
            elif isinstance(member, FunctionType) and inspect.getdoc(member):
                yield _row(member)


def _row(function: Callable[..., Any]) -> str:
    return f"| `{function.__name__}{_parameters(function)}` | {_text(function)} |\n"


def _parameters(function: Callable[..., Any]) -> str:
    """The parameters with their defaults; their types are for editors."""
    shown = []
    is_named = False
    for each in inspect.signature(function).parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not is_named:
            shown.append("*")
        is_named = is_named or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        prefix = "*" * ((each.kind is each.VAR_POSITIONAL) + 2 * (each.kind is each.VAR_KEYWORD))
        default = "" if each.default is each.empty else f"={each.default!r}"
        shown.append(f"{prefix}{each.name}{default}")
    return f"({', '.join(shown)})"


def _text(documented: object) -> str:
    """A docstring in one line of a table, without its programs."""
    text = "\n".join(
        line for line in (inspect.getdoc(documented) or "").splitlines() if not line.startswith("    ")
    )
    return " ".join(text.split()).replace("|", "\\|")


def _prose(kind: type) -> str:
    """The docstring of a class, whose indented parts are programs."""
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    shown = []
    for paragraph in paragraphs:
        is_program = re.match(r"(with|async with) .*:$", paragraph.splitlines()[0] if paragraph else "")
        shown.append(f"```python\n{paragraph}\n```" if is_program else " ".join(paragraph.split()))
    return "\n\n".join(shown) + "\n"


def _twins() -> str:
    rows = []
    for twin in TWINS:
        names = [
            f"`{name}`"
            for name, member in vars(twin).items()
            if inspect.iscoroutinefunction(member) and not name.startswith("_")
        ]
        effects = [
            f"`{name}`"
            for name, member in vars(twin).items()
            if isinstance(member, FunctionType) and "AsyncEffect" in str(member.__annotations__.get("return"))
        ]
        entered = f"; entered or awaited: {', '.join(effects)}" if effects else ""
        rows.append(f"| `{twin.__name__}` | {', '.join(names)}{entered} |\n")
    return f"## With coroutines\n\n| class | awaited |\n|---|---|\n{''.join(rows)}"
