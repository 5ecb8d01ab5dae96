"""Writes protocol/messages/, protocol/records/ and the table of APIs from Apache Kafka's message definitions.

    python -m tools.generate_messages LIBS_OF_4.1.0 LIBS_OF_3.9.1 LIBS_OF_4.3.1

Each argument is a folder of jars; the definitions are JSON inside them.  Names, types and versions are taken
from there, no text: the lines about messages are ours (`message_notes`).  From 3.9.1 come the four APIs of
ZooKeeper mode and the request header, whose version 0 one of them needs; from 4.3.1 comes AddRaftVoter, with
whose version 1 a controller joins the voters by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.protocol.schema import camel_case
from tools import message_notes

Definition = dict[str, Any]
PACKAGE = Path(__file__).parent.parent / "src" / "barnabas" / "protocol"
FROM_3_9 = {
    name + suffix
    for name in ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown")
    for suffix in ("Request", "Response")
} | {"RequestHeader"}
# Their latest version is not one of 4.1.0, and announced to controllers alone.
FROM_4_3 = {"AddRaftVoterRequest", "AddRaftVoterResponse"}
MAX_VERSION = 2**15 - 1
NOTE = "Written by tools/generate_messages.py: change that, not this file."
ZEROS = {"bool": "False", "string": '""', "bytes": 'b""', "float64": "0.0", "uuid": "ZERO_UUID"}
PYTHON_TYPES = {"records": "record_data"}


def load(libs: Path) -> dict[str, Definition]:
    """Every definition in a folder of jars, by name; `_jar` is its jar."""
    definitions: dict[str, Definition] = {}
    for jar in sorted(libs.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.search(r"(^|/)(message|metadata)/\w+\.json$", name):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    definition = json.loads(text)
                    definitions[definition["name"]] = {**definition, "_jar": jar.name}
    return definitions


def versions(text: str | None) -> tuple[int, int]:
    if text is None or text == "none":
        return (1, 0)
    if text.endswith("+"):
        return (int(text[:-1]), MAX_VERSION)
    lowest, _, highest = text.partition("-")
    return (int(lowest), int(highest or lowest))


def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return (max(one[0], other[0]), min(one[1], other[1]))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Writer:
    """One message class as source."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.name: str = definition["name"]
        self.valid = versions(definition["validVersions"])
        self.structs: dict[str, list[Definition]] = {}
        self.reach: dict[str, tuple[int, int]] = {}
        self.imports = {"Message"}
        self.needs_zero_uuid = False
        common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
        self._collect(definition["fields"], self.valid, common)

    def _collect(self, fields: list[Definition], reach: tuple[int, int], common: dict[str, Any]) -> None:
        """Collects the structs, innermost first, and the versions in which each is used."""
        for known in fields:
            kind = known["type"].removeprefix("[]")
            if kind[0].isupper():
                within = both(reach, versions(known.get("versions", known.get("taggedVersions"))))
                parts = known.get("fields") or common[kind]
                self._collect(parts, within, common)
                lowest, highest = self.reach.get(kind, within)
                self.reach[kind] = (min(lowest, within[0]), max(highest, within[1]))
                self.structs.setdefault(kind, parts)

    def short(self, struct: str) -> str:
        """A struct's name without the name of the message."""
        api = re.sub("(Request|Response)$", "", self.name)
        for prefix in (self.name, api):
            short_name = struct.removeprefix(prefix)
            taken = short_name != struct and short_name in self.structs
            if short_name != struct and short_name[:1].isupper() and not taken:
                return short_name
        return struct

    def lines(self, doc: str) -> Iterator[str]:
        key = f"key={self.definition['apiKey']}, " if "apiKey" in self.definition else ""
        flexible, _ = versions(self.definition.get("flexibleVersions"))
        never = self.definition.get("flexibleVersions", "none") == "none"
        options = f"{key}versions={self.valid}" + ("" if never else f", flexible={flexible}")
        yield f"class {self.name}(Message, {options}):"
        yield f'    """{doc}"""'
        yield ""
        names = [self.short(struct) for struct in self.structs]
        assert len(set(names)) == len(names), f"{self.name}: two structs of the same name"
        for struct, fields in self.structs.items():
            yield f"    class {self.short(struct)}(Message):"
            yield from ("        " + self.field(known, self.reach[struct], nested=True) for known in fields)
            yield ""
        yield from ("    " + self.field(known, self.valid) for known in self.definition["fields"])

    def field(self, known: Definition, reach: tuple[int, int], *, nested: bool = False) -> str:
        kind = known["type"].removeprefix("[]")
        present = both(reach, versions(known.get("versions", known.get("taggedVersions"))))
        nullable = both(present, versions(known.get("nullableVersions")))
        everywhere = present == reach
        options = [] if everywhere else [f'"{self.range(present)}"']
        if "tag" in known:
            assert versions(known["taggedVersions"])[0] <= present[0]
            options.append(f"tag={known['tag']}")
        if nullable[0] <= nullable[1] and nullable != present:
            options.append(f'nullable="{self.range(nullable)}"')
        if not everywhere or "tag" in known or "default" in known:
            options.append(f"default={self.default(known)}")
        if known.get("ignorable") and not everywhere:
            options.append("ignorable=True")
        if known.get("flexibleVersions") == "none":
            options.append("compact=False")
        attribute, name = snake(known["name"]), known["name"][0].lower() + known["name"][1:]
        if camel_case(attribute) != name:
            options.append(f'name="{name}"')
        text = self.type(kind, nested=nested)
        text = f"list[{text}]" if known["type"].startswith("[]") else text
        if nullable[0] <= nullable[1]:
            text += " | None"
        if options:
            self.imports.add("field")
        return f"{attribute}: {text}" + (f" = field({', '.join(options)})" if options else "")

    def range(self, wanted: tuple[int, int]) -> str:
        lowest, highest = wanted
        if highest >= self.valid[1]:
            return f"{lowest}+"
        return str(lowest) if lowest == highest else f"{lowest}-{highest}"

    def type(self, kind: str, *, nested: bool) -> str:
        if kind[0].isupper():
            return f"{self.name}.{self.short(kind)}" if nested else self.short(kind)
        kind = PYTHON_TYPES.get(kind, kind)
        if kind not in ("bool", "bytes"):
            self.imports.add(kind)
        return kind

    def default(self, known: Definition) -> str:
        value, kind = known.get("default"), known["type"]
        if value == "null" or kind == "records":
            return "None"
        if kind.startswith("[]"):
            return "[]"
        if kind[0].isupper():
            self.imports.add("NEW")
            return "NEW"
        if value in (None, ""):
            self.needs_zero_uuid |= kind == "uuid"
            return ZEROS.get(kind, "0")
        if kind == "bool":
            return str(value).title()
        return repr(value) if kind == "string" else str(int(str(value), 0))


def write_module(path: Path, title: str, parts: list[tuple[Definition, str]]) -> None:
    writers = [(Writer(definition), doc) for definition, doc in parts]
    bodies = ["\n".join(writer.lines(doc)) for writer, doc in writers]
    imports = sorted(set().union(*(writer.imports for writer, _ in writers)))
    header = [f'"""{title}\n\n{NOTE}\n"""', "", "from __future__ import annotations", ""]
    if any(writer.needs_zero_uuid for writer, _ in writers):
        header.append("from barnabas.base.ids import ZERO_UUID")
    header.append(f"from barnabas.protocol.schema import {', '.join(imports)}")
    path.write_text("\n".join(header) + "\n\n\n" + "\n\n\n".join(bodies) + "\n", encoding="utf-8")


def record_file(name: str, definition: Definition) -> str:
    """The file under records/ that a record belongs to."""
    if "kafka-metadata" in definition["_jar"]:
        return "metadata"
    for prefix, file in (
        ("ConsumerGroup", "consumer_group"),
        ("ConsumerProtocol", "consumer_protocol"),
        ("ShareGroup", "share_group"),
        ("Share", "share_state"),
        ("StreamsGroup", "streams_group"),
        ("TransactionLog", "transaction_log"),
        ("ProducerSnapshot", "producer_snapshot"),
        ("QuorumState", "quorum_state"),
        ("Remote", "remote_log"),
        ("DefaultPrincipal", "principal"),
    ):
        if name.startswith(prefix):
            return file
    return "group" if "kafka-group-coordinator" in definition["_jar"] else "control"


def api_row(name: str, request: Definition, older: Definition | None) -> str:
    lowest, highest = versions(request["validVersions"])
    flexible = versions(request.get("flexibleVersions"))
    listeners = set(request.get("listeners", []))
    if older is not None:
        listeners |= {"zkBroker"} & set(older.get("listeners", []))
    options = [str(request["apiKey"]), f'"{name}"', f'"{lowest}-{highest}"']
    options.append(f'"{" ".join(sorted(listeners))}"')
    if flexible != (1, 0):
        options.append(f"flexible={flexible[0]}")
    if request.get("latestVersionUnstable") or request["name"] in FROM_4_3:
        options.append(f"stable={highest - 1}")
    if name in message_notes.CLUSTER_ACTIONS:
        options.append("cluster_action=True")
    if name in message_notes.FORWARDED:
        options.append("forwarded=True")
    return f"    api_row({', '.join(options)}),"


def generate(libs: Path, older_libs: Path, newer_libs: Path, package: Path) -> None:
    older, newer = load(older_libs), load(newer_libs)
    chosen = load(libs)
    chosen |= {name: older[name] for name in FROM_3_9} | {name: newer[name] for name in FROM_4_3}
    apis = sorted(message_notes.APIS, key=lambda name: int(chosen[name + "Request"]["apiKey"]))
    for name in apis:
        request, response = chosen[name + "Request"], chosen[name + "Response"]
        docs = message_notes.APIS[name]
        title = f"{name} (api key {request['apiKey']})."
        parts = [(request, docs[0]), (response, docs[1])]
        write_module(package / "messages" / f"{snake(name)}.py", title, parts)
    headers = [(chosen[name], doc) for name, doc in message_notes.HEADERS.items()]
    write_module(package / "messages" / "headers.py", "The headers of requests and responses.", headers)
    for file, title in message_notes.RECORD_FILES.items():
        records = [
            (chosen[name], doc)
            for name, doc in message_notes.RECORDS.items()
            if record_file(name, chosen[name]) == file
        ]
        write_module(package / "records" / f"{file}.py", title, records)
    rows = [api_row(name, chosen[name + "Request"], older.get(name + "Request")) for name in apis]
    header = f'"""Every API, by key.\n\n{NOTE}\n"""\n\nfrom __future__ import annotations\n\n'
    imports = "from barnabas.protocol.apis import api_row\n\n"
    table = header + imports + "API_ROWS = (\n" + "\n".join(rows) + "\n)\n"
    (package / "api_table.py").write_text(table, encoding="utf-8")
    settings = PACKAGE.parents[2] / "pyproject.toml"
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "-q",
            "--no-cache",
            "--config",
            str(settings),
            str(package),
        ]
        subprocess.run(ruff, check=True)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), PACKAGE)
