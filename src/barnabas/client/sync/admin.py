"""The blocking admin client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from barnabas.client.admin.admin import Admin as AsyncAdmin
from barnabas.client.sync.blocking_client import BlockingClient, blocking, start_client

if TYPE_CHECKING:
    from barnabas.client.types.options import AdminOptions


class Admin(BlockingClient[AsyncAdmin]):
    """See `barnabas.client.Admin`.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics([NewTopic("orders", num_partitions=3)])
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, /, **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__(*start_client("barnabas-admin", lambda: AsyncAdmin(config, **options)))

    def close(self) -> None:
        """Close the connections."""
        self._end(self._client.close())

    reach = blocking(AsyncAdmin.reach)
    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    describe_configs = blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = blocking(AsyncAdmin.incremental_alter_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    list_config_resources = blocking(AsyncAdmin.list_config_resources)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    delete_records = blocking(AsyncAdmin.delete_records)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = blocking(AsyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    list_groups = blocking(AsyncAdmin.list_groups)
    list_consumer_groups = blocking(AsyncAdmin.list_consumer_groups)
    describe_consumer_groups = blocking(AsyncAdmin.describe_consumer_groups)
    describe_classic_groups = blocking(AsyncAdmin.describe_classic_groups)
    describe_share_groups = blocking(AsyncAdmin.describe_share_groups)
    describe_streams_groups = blocking(AsyncAdmin.describe_streams_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    delete_consumer_groups = blocking(AsyncAdmin.delete_consumer_groups)
    delete_share_groups = blocking(AsyncAdmin.delete_share_groups)
    delete_streams_groups = blocking(AsyncAdmin.delete_streams_groups)
    remove_members_from_consumer_group = blocking(AsyncAdmin.remove_members_from_consumer_group)
    list_consumer_group_offsets = blocking(AsyncAdmin.list_consumer_group_offsets)
    list_streams_group_offsets = blocking(AsyncAdmin.list_streams_group_offsets)
    alter_consumer_group_offsets = blocking(AsyncAdmin.alter_consumer_group_offsets)
    alter_streams_group_offsets = blocking(AsyncAdmin.alter_streams_group_offsets)
    delete_consumer_group_offsets = blocking(AsyncAdmin.delete_consumer_group_offsets)
    delete_streams_group_offsets = blocking(AsyncAdmin.delete_streams_group_offsets)
    list_share_group_offsets = blocking(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = blocking(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(AsyncAdmin.delete_share_group_offsets)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    force_terminate_transaction = blocking(AsyncAdmin.force_terminate_transaction)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    create_acls = blocking(AsyncAdmin.create_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_token = blocking(AsyncAdmin.describe_delegation_token)
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_features = blocking(AsyncAdmin.describe_features)
    update_features = blocking(AsyncAdmin.update_features)
    describe_metadata_quorum = blocking(AsyncAdmin.describe_metadata_quorum)
    add_raft_voter = blocking(AsyncAdmin.add_raft_voter)
    remove_raft_voter = blocking(AsyncAdmin.remove_raft_voter)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    describe_api_versions = blocking(AsyncAdmin.describe_api_versions)
    client_instance_id = blocking(AsyncAdmin.client_instance_id)
