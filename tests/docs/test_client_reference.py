"""The reference of the Python client says all that a program needs, and the user program needs no more."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from barnabas import client
from barnabas.client import admin, errors, serialization, sync
from barnabas.client.errors.base import ClientError
from tools.client_reference.definitions import as_markdown, definition
from tools.client_reference.page import client_page

PROGRAM = Path(__file__).parent / "programs" / "warehouse.py"
PAGE = client_page("Written.")
# Of Python, and of the program itself.
OTHERS = {
    *dir(dict), *dir(list), *dir(str), *dir(bytes), *dir(set),
    "item", "count", "had", "argv", "stderr", "run",
}  # fmt: skip


def exported() -> list[str]:
    raised = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    of_errors = [name for name in raised if issubclass(getattr(errors, name), ClientError)]
    return [*client.__all__, *sync.__all__, *admin.__all__, *serialization.__all__, *of_errors]


def test_everything_exported_is_on_the_page() -> None:
    """As a heading, as a class or function, or by name."""
    said = re.findall(r"^#+ (\w+)$|`(\w+)`|\b(\w+)[(:\]]", PAGE, re.M)
    assert set(exported()) - {name for names in said for name in names} == set()


def test_every_call_has_a_text() -> None:
    """A signature is followed by a sentence, and a class is introduced by one."""
    blocks = re.split(r"```python\n(.*?)```\n", PAGE, flags=re.S)
    calls = [(code, text) for code, text in zip(blocks[1::2], blocks[2::2], strict=True)]
    assert [code for code, text in calls if re.match(r"(async )?def ", code) and not text.strip()] == []
    assert re.findall(r"\*\*`\w+`\*\*: *\n", PAGE) == []


def test_the_user_program_needs_only_the_page() -> None:
    """Its imports and the attributes that it uses are there."""
    tree = ast.parse(PROGRAM.read_text("utf-8"))
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("barnabas")
        for name in node.names
    }
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - OTHERS
    keywords = {
        keyword.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and inspect.isclass(getattr(client, getattr(node.func, "id", ""), None))
        for keyword in node.keywords
        if keyword.arg is not None
    }
    words = set(re.findall(r"\w+", PAGE))
    assert sorted((imported | used | keywords) - words) == []
    assert len(used) > 30
    assert len(PROGRAM.read_text("utf-8").splitlines()) > 200


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One\nsentence.", "One sentence."),
        ("Text.\n\n    a = 1\n\n    b = 2\n\nMore.", "Text.\n\n```python\na = 1\n\nb = 2\n```\n\nMore."),
    ],
)
def test_docstrings_as_markdown(docstring: str, expected: str) -> None:
    assert as_markdown(docstring) == expected


def test_signatures() -> None:
    """As users write them: without self, with the values of constants, Python's integers, an empty dict."""
    topic = {
        member.name: member for member in definition("barnabas.client.admin.topics", "NewTopic").members()
    }
    assert topic["num_partitions"].signature == "num_partitions: int = -1"
    assert topic["configs"].signature == "configs: Mapping[str, str | None] = {}"
    consumer = definition("barnabas.client.sync.consumer", "Consumer")
    (close,) = (member for member in consumer.members() if member.name == "close")
    assert close.signature == "def close(*, timeout_ms: int = 30_000) -> None"
    delivery = definition("barnabas.batch.engine.gather", "Delivery")
    assert next(member.signature for member in delivery.members()) == "index: int"
