"""Principals that are known without anybody having authenticated."""

from __future__ import annotations

# Of a connection that did not authenticate, as Apache Kafka writes it.
ANONYMOUS = "User:ANONYMOUS"
# Of the requests between the nodes of a cluster, as long as there is one principal.
OWN_PRINCIPAL = ANONYMOUS
