"""The options of the clients as TypedDicts, for type checkers and completion in editors.

Written by `python -m tools.generate_option_types` from the option tables; do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class ClientOptions(TypedDict, total=False):
    """The options of what all clients share."""

    bootstrap_servers: str | Sequence[str]
    """Bootstrap brokers: host:port, separated by commas; the client discovers the rest of the cluster
    from them.
    """
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] | str
    """Whether the client tries all addresses of a host name or its canonical names (default
    use_all_dns_ips).
    """
    client_id: str
    """Name of the client in logs, metrics and quotas."""
    connections_max_idle_ms: int
    """Time without traffic after which a connection is closed (default 540000)."""
    enable_metrics_push: bool
    """Whether the client sends its metrics to the cluster when requested (KIP-714) (default true)."""
    metadata_max_age_ms: int
    """Age at which metadata is refreshed (default 300000)."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """Time without metadata after which it rebootstraps (default 300000)."""
    metadata_recovery_strategy: Literal["REBOOTSTRAP", "NONE", "rebootstrap", "none"] | str
    """Whether a client that can reach no known broker rebootstraps from its bootstrap servers (default
    rebootstrap).
    """
    metric_reporters: str | Sequence[str]
    """Java classes of metrics reporters (default org.apache.kafka.common.metrics.JmxReporter)."""
    metrics_num_samples: int
    """Number of samples that a rate is computed from (default 2)."""
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"] | str
    """Recording level of metrics (default INFO)."""
    metrics_sample_window_ms: int
    """Duration of one sample (default 30000)."""
    receive_buffer_bytes: int
    """Receive buffer requested for sockets; -1 leaves it to the operating system (default 32768)."""
    reconnect_backoff_max_ms: int
    """Maximum backoff (default 1000)."""
    reconnect_backoff_ms: int
    """Initial backoff before reconnecting to a broker (default 50)."""
    request_timeout_ms: int
    """How long the client waits for a response (default 30000)."""
    retry_backoff_max_ms: int
    """Maximum backoff (default 1000)."""
    retry_backoff_ms: int
    """Initial backoff before a request is retried (default 100)."""
    sasl_client_callback_handler_class: object
    """Class that handles the client-side callbacks of a mechanism."""
    sasl_jaas_config: str | None
    """Login module and its parameters, in the form of a JAAS file."""
    sasl_kerberos_kinit_cmd: str
    """Path of the kinit command (default /usr/bin/kinit)."""
    sasl_kerberos_min_time_before_relogin: int
    """Minimum time between two Kerberos logins (default 60000)."""
    sasl_kerberos_service_name: str | None
    """Kerberos principal name of the brokers."""
    sasl_kerberos_ticket_renew_jitter: float
    """Random fraction added to the renewal time (default 0.05)."""
    sasl_kerberos_ticket_renew_window_factor: float
    """Fraction of a ticket's lifetime after which it is renewed (default 0.8)."""
    sasl_login_callback_handler_class: object
    """Class that handles the callbacks of the login."""
    sasl_login_class: object
    """Class that performs the login."""
    sasl_login_connect_timeout_ms: int | None
    """Timeout for connecting to the external authentication provider."""
    sasl_login_read_timeout_ms: int | None
    """Timeout for reading that provider's response."""
    sasl_login_refresh_buffer_seconds: int
    """Time before expiry by which a refresh should happen (default 300)."""
    sasl_login_refresh_min_period_seconds: int
    """Minimum time between two refreshes (default 60)."""
    sasl_login_refresh_window_factor: float
    """Fraction of a credential's lifetime after which it is refreshed (default 0.8)."""
    sasl_login_refresh_window_jitter: float
    """Random fraction added to that time (default 0.05)."""
    sasl_login_retry_backoff_max_ms: int
    """Maximum backoff (default 10000)."""
    sasl_login_retry_backoff_ms: int
    """Initial backoff before a login is retried (default 100)."""
    sasl_mechanism: str
    """SASL mechanism that a client uses (default GSSAPI)."""
    sasl_oauthbearer_assertion_algorithm: Literal["ES256", "RS256", "es256", "rs256"] | str
    """Algorithm that signs an assertion (default RS256)."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """Audience claim of an assertion."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """Seconds until an assertion expires (default 300)."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """Issuer claim of an assertion."""
    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Whether an assertion carries a unique id (default false)."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """Seconds before the current time from which an assertion is valid (default 60)."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """Subject claim of an assertion."""
    sasl_oauthbearer_assertion_file: str | None
    """File with a pre-generated assertion."""
    sasl_oauthbearer_assertion_private_key_file: str | None
    """File with the key that signs assertions."""
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """Passphrase of that key."""
    sasl_oauthbearer_assertion_template_file: str | None
    """Template file with claims and headers of an assertion."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the client-credentials grant."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the client-credentials grant."""
    sasl_oauthbearer_clock_skew_seconds: int
    """Allowed difference between the issuer's clock and the local one (default 30)."""
    sasl_oauthbearer_expected_audience: str | Sequence[str] | None
    """Accepted audiences of a token."""
    sasl_oauthbearer_expected_issuer: str | None
    """Expected issuer of a token."""
    sasl_oauthbearer_header_urlencode: bool
    """Whether id and secret are URL-encoded in the request's header (default false)."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    """How often those keys are refreshed (default 3600000)."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    """Maximum backoff (default 10000)."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    """Initial backoff before a failed refresh is retried (default 100)."""
    sasl_oauthbearer_jwks_endpoint_url: str | None
    """URL of the issuer's keys (JWKS)."""
    sasl_oauthbearer_jwt_retriever_class: object
    """Class that retrieves tokens (default
    org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever).
    """
    sasl_oauthbearer_jwt_validator_class: object
    """Class that validates tokens (default
    org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator).
    """
    sasl_oauthbearer_scope: str | None
    """Scope that is requested."""
    sasl_oauthbearer_scope_claim_name: str
    """Claim that holds a token's scope (default scope)."""
    sasl_oauthbearer_sub_claim_name: str
    """Claim that holds a token's subject (default sub)."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """URL of the token endpoint."""
    security_protocol: (
        Literal[
            "SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "sasl_ssl", "plaintext", "ssl", "sasl_plaintext"
        ]
        | str
    )
    """Security protocol towards the brokers (default PLAINTEXT)."""
    security_providers: str | None
    """Java classes that provide security algorithms."""
    send_buffer_bytes: int
    """Send buffer requested for sockets; -1 leaves it to the operating system (default 131072)."""
    socket_connection_setup_timeout_max_ms: int
    """Maximum timeout for setting up a connection (default 30000)."""
    socket_connection_setup_timeout_ms: int
    """Initial timeout for setting up a connection; it grows with each failure (default 10000)."""
    ssl_cipher_suites: str | Sequence[str] | None
    """Cipher suites to offer; empty means the library's default."""
    ssl_enabled_protocols: str | Sequence[str]
    """TLS versions to offer (default TLSv1.2,TLSv1.3)."""
    ssl_endpoint_identification_algorithm: str
    """How the server's host name is checked; empty checks nothing (default https)."""
    ssl_engine_factory_class: object
    """Class that creates TLS engines."""
    ssl_key_password: str | None
    """Password of the private key."""
    ssl_keymanager_algorithm: str
    """Algorithm of the key manager (default SunX509)."""
    ssl_keystore_certificate_chain: str | None
    """Certificate chain in PEM form."""
    ssl_keystore_key: str | None
    """Private key in PEM form."""
    ssl_keystore_location: str | None
    """File with the private key and its certificates."""
    ssl_keystore_password: str | None
    """Password of that file."""
    ssl_keystore_type: str
    """Format of that file: JKS, PKCS12 or PEM (default JKS)."""
    ssl_protocol: str
    """TLS version to negotiate (default TLSv1.3)."""
    ssl_provider: str | None
    """Java security provider for TLS."""
    ssl_secure_random_implementation: str | None
    """Source of random numbers for TLS."""
    ssl_trustmanager_algorithm: str
    """Algorithm of the trust manager (default PKIX)."""
    ssl_truststore_certificates: str | None
    """Trusted certificates in PEM form."""
    ssl_truststore_location: str | None
    """File with trusted certificates."""
    ssl_truststore_password: str | None
    """Password of that file."""
    ssl_truststore_type: str
    """Format of that file: JKS, PKCS12 or PEM (default JKS)."""


class ProducerOptions(ClientOptions, total=False):
    """The options of `Producer`, as keywords."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1] | str
    """Acknowledgements a write waits for: 0 none, 1 the leader's, all (or -1) those of the full ISR
    (default all).
    """
    batch_size: int
    """Maximum bytes of a batch of records for one partition (default 16384)."""
    buffer_memory: int
    """Memory for records that wait to be sent (default 33554432)."""
    compression_gzip_level: int
    """Compression level of gzip (default -1)."""
    compression_lz4_level: int
    """Compression level of lz4 (default 9)."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | str
    """Codec of the producer's batches (default none)."""
    compression_zstd_level: int
    """Compression level of zstd (default 3)."""
    delivery_timeout_ms: int
    """Maximum time from send() to its result, retries included (default 120000)."""
    enable_idempotence: bool
    """Whether the broker discards duplicates, so that each record is written exactly once (default
    true).
    """
    interceptor_classes: object
    """Interceptors, which process each record."""
    linger_ms: int
    """Time a batch that is not full waits for more records (default 5)."""
    max_block_ms: int
    """How long send() may wait for metadata or memory (default 60000)."""
    max_in_flight_requests_per_connection: int
    """Maximum number of unacknowledged requests per connection (default 5)."""
    max_request_size: int
    """Maximum size of a request (default 1048576)."""
    metadata_max_idle_ms: int
    """Time after which the metadata of an unused topic expires (default 300000)."""
    partitioner_adaptive_partitioning_enable: bool
    """Whether faster brokers receive more of the records without a key (default true)."""
    partitioner_availability_timeout_ms: int
    """Time after which the partitioner skips a broker that accepts no batches; 0 disables it (default
    0).
    """
    partitioner_class: object
    """Class that chooses the partition; if unset, the key's hash or the sticky partitioner does."""
    partitioner_ignore_keys: bool
    """Whether the partitioner ignores keys (default false)."""
    retries: int
    """How often a request that failed with a retriable error is retried (default 2147483647)."""
    transaction_timeout_ms: int
    """Time after which the coordinator aborts an open transaction (default 60000)."""
    transaction_two_phase_commit_enable: bool
    """Whether an external coordinator decides this producer's transactions (KIP-939) (default false)."""
    transactional_id: str | None
    """Id that makes the producer transactional and fences earlier producers with the same id."""


class ConsumerOptions(ClientOptions, total=False):
    """The options of `Consumer`, as keywords."""

    allow_auto_create_topics: bool
    """Whether subscribing to a topic may create it (default true)."""
    auto_commit_interval_ms: int
    """Time between two automatic commits (default 5000)."""
    auto_offset_reset: str
    """Where to start without a valid offset: earliest, latest, by duration, or none (an error) (default
    latest).
    """
    check_crcs: bool
    """Whether checksums are verified on reading (default true)."""
    client_rack: str
    """Rack of the consumer, so that it can fetch from the closest replica."""
    default_api_timeout_ms: int
    """Default timeout of calls that do not set their own (default 60000)."""
    enable_auto_commit: bool
    """Whether offsets are committed in the background (default true)."""
    exclude_internal_topics: bool
    """Whether a pattern subscription excludes internal topics (default true)."""
    fetch_max_bytes: int
    """Maximum bytes of one fetch (default 52428800)."""
    fetch_max_wait_ms: int
    """How long the broker may delay a fetch that does not reach its minimum size (default 500)."""
    fetch_min_bytes: int
    """Minimum bytes of a fetch response (default 1)."""
    group_id: str | None
    """Group the consumer belongs to."""
    group_instance_id: str | None
    """Id of a static member, so that a restart causes no rebalance (KIP-345)."""
    group_protocol: Literal["CONSUMER", "CLASSIC", "consumer", "classic"] | str
    """Protocol of the group: classic, or consumer (KIP-848) (default classic)."""
    group_remote_assignor: str | None
    """Server-side assignor to use."""
    heartbeat_interval_ms: int
    """Time between two heartbeats of a classic member (default 3000)."""
    interceptor_classes: object
    """Interceptors, which process each record."""
    isolation_level: Literal["read_committed", "read_uncommitted"] | str
    """Whether records of open and aborted transactions are returned (default read_uncommitted)."""
    max_partition_fetch_bytes: int
    """Maximum bytes of one partition in a fetch (default 1048576)."""
    max_poll_interval_ms: int
    """Maximum time between two polls before the member is considered failed (default 300000)."""
    max_poll_records: int
    """Maximum number of records that one poll returns (default 500)."""
    partition_assignment_strategy: object
    """Client-side assignors, in order of preference (default class
    org.apache.kafka.clients.consumer.RangeAssignor,class
    org.apache.kafka.clients.consumer.CooperativeStickyAssignor).
    """
    session_timeout_ms: int
    """Time without a heartbeat after which a classic member is removed from the group (default 45000)."""
    share_acknowledgement_mode: Literal["implicit", "explicit"] | str
    """Whether a share consumer acknowledges records implicitly, by the next poll, or explicitly (default
    implicit).
    """


class AdminOptions(ClientOptions, total=False):
    """The options of `Admin`, as keywords."""

    bootstrap_controllers: str | Sequence[str]
    """Bootstrap controllers, used instead of brokers: host:port, separated by commas."""
    default_api_timeout_ms: int
    """Default timeout of calls that do not set their own (default 60000)."""
    retries: int
    """How often a request that failed with a retriable error is retried (default 2147483647)."""
