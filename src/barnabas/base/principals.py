"""Principals that are known without anybody having authenticated."""

from __future__ import annotations

# Of a connection that did not authenticate, as Apache Kafka writes it.
ANONYMOUS = "User:ANONYMOUS"
# Of the requests between the nodes of a cluster, as long as there is one principal.
OWN_PRINCIPAL = ANONYMOUS
# Where the requests of a node itself come from.
LOCALHOST = "127.0.0.1"
