"""The feature that each option belongs to, and which features are implemented.

An implemented feature is listed in `BUILT_FEATURES`; its options are accepted without a warning.  Setting an
option of any other feature logs a warning, or is an error if the option protects something
(node/security.py).
"""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """Features, as the reference page names them."""

    # The JVM, thread pools and their queues, JMX, formats that are no longer written: such an option has
    # nothing to control here.
    NONE = "none"
    BROKER = "broker"
    LOG = "log"
    RETENTION = "retention"
    COMPACTION = "compaction"
    NETWORK = "network"
    REPLICATION = "replication"
    CONTROLLER = "controller"
    QUORUM = "quorum"
    ZOOKEEPER = "ZooKeeper mode"
    MIGRATION = "migration from ZooKeeper"
    TOPICS = "topics"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    SHARE_GROUPS = "share groups"
    STREAMS_GROUPS = "streams groups"
    QUOTAS = "quotas"
    OTHER_QUOTAS = "quotas of moves between directories, and Java classes for quotas"
    METRICS = "metrics"
    TELEMETRY = "client telemetry"
    TIERED_STORAGE = "tiered storage"
    CLIENT = "client"
    TLS = "TLS"
    SASL = "SASL"
    KERBEROS = "Kerberos"
    OAUTHBEARER = "OAUTHBEARER"
    OAUTH_ASSERTIONS = "OAuth assertions"
    SECURITY_CLASSES = "Java classes for security"
    AUTHENTICATION = "authentication"
    AUTHORIZER = "authorizer"
    DELEGATION_TOKENS = "delegation tokens"
    POLICIES = "policies"
    ZOOKEEPER_SECURITY = "ZooKeeper security"
    ZOOKEEPER_REVOCATION = "checks of revocation and encoded passwords in ZooKeeper mode"


# Options of these features protect something: until the feature is implemented, setting one prevents startup.
SECURITY_FEATURES = frozenset(
    {
        Feature.TLS,
        Feature.SASL,
        Feature.KERBEROS,
        Feature.OAUTHBEARER,
        Feature.OAUTH_ASSERTIONS,
        Feature.SECURITY_CLASSES,
        Feature.AUTHORIZER,
        Feature.QUOTAS,
        Feature.DELEGATION_TOKENS,
        Feature.POLICIES,
        Feature.ZOOKEEPER_SECURITY,
        Feature.ZOOKEEPER_REVOCATION,
    }
)

BUILT_FEATURES = frozenset(
    {
        Feature.BROKER,
        Feature.LOG,
        Feature.RETENTION,
        Feature.COMPACTION,
        Feature.NETWORK,
        Feature.REPLICATION,
        Feature.CONTROLLER,
        Feature.QUORUM,
        Feature.ZOOKEEPER,
        Feature.TOPICS,
        Feature.GROUPS,
        Feature.AUTHORIZER,
        Feature.TLS,
        Feature.SASL,
        Feature.OAUTHBEARER,
        Feature.DELEGATION_TOKENS,
        Feature.TRANSACTIONS,
        Feature.QUOTAS,
        Feature.ZOOKEEPER_SECURITY,
    }
)
