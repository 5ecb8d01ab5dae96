"""Which part of the system gives an option its effect, and which of those parts exist.

A part that is finished adds itself to `BUILT_FEATURES`; from then on its options are taken without a word.
Until then an option of it that somebody sets is warned of, and one that protects something is refused
(security.py).
"""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """The parts of the system, as the reference page names them."""

    # The JVM, thread pools and their queues, JMX, formats that nobody writes any more: there is nothing here
    # that such an option could steer.
    NONE = "none"
    BROKER = "broker"
    LOG = "log"
    RETENTION = "retention"
    COMPACTION = "compaction"
    NETWORK = "network"
    REPLICATION = "replication"
    CONTROLLER = "controller"
    QUORUM = "quorum"
    CLUSTERS = "clusters of several nodes"
    ZOOKEEPER = "ZooKeeper mode"
    MIGRATION = "migration from ZooKeeper"
    TOPICS = "topics"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    SHARE_GROUPS = "share groups"
    STREAMS_GROUPS = "streams groups"
    QUOTAS = "quotas"
    OTHER_QUOTAS = "quotas of connections, replication and the controller"
    METRICS = "metrics"
    TELEMETRY = "client telemetry"
    TIERED_STORAGE = "tiered storage"
    CLIENT = "client"
    TLS = "TLS"
    SASL = "SASL"
    AUTHENTICATION = "authentication"
    AUTHORIZER = "authorizer"
    DELEGATION_TOKENS = "delegation tokens"
    POLICIES = "policies"
    ZOOKEEPER_SECURITY = "ZooKeeper security"


# Options of these protect something: while the part is missing they stop the start instead of being ignored.
SECURITY_FEATURES = frozenset(
    {
        Feature.TLS,
        Feature.SASL,
        Feature.AUTHORIZER,
        Feature.QUOTAS,
        Feature.DELEGATION_TOKENS,
        Feature.POLICIES,
        Feature.ZOOKEEPER_SECURITY,
    }
)

BUILT_FEATURES = frozenset(
    {
        Feature.BROKER,
        Feature.LOG,
        Feature.RETENTION,
        Feature.COMPACTION,
        Feature.NETWORK,
        Feature.CONTROLLER,
        Feature.QUORUM,
        Feature.TOPICS,
        Feature.GROUPS,
        Feature.AUTHORIZER,
        Feature.TRANSACTIONS,
    }
)
