"""Topic names: which are valid, which are internal, and which collide.

Names become directory names, so an invalid name must never reach a disk.
"""

from __future__ import annotations

import re

from barnabas.base.errors import ErrorCode, KafkaError

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
MAX_NAME_LENGTH = 249

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Whether the topic is written by the cluster itself; Metadata responses flag it as internal."""
    return name in INTERNAL_TOPICS


def fault_of(name: str) -> str | None:
    """Why a name is invalid, in Apache Kafka's wording; None if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _ALLOWED.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def is_valid(name: str) -> bool:
    return fault_of(name) is None


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for an invalid name."""
    fault = fault_of(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def collision_key(name: str) -> str:
    """Topics whose names have the same key collide: metrics replace a dot by an underscore."""
    return name.replace(".", "_")
