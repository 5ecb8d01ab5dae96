"""The topic calls of the blocking admin client, for short-lived programs.

The whole admin client imports a hundred messages, which a program that only lists topics need not load.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.admin.topics import TopicCalls
from barnabas.client.cluster import Cluster
from barnabas.client.options import admin_options
from barnabas.client.sync.blocking_client import BlockingClient, blocking, start_client


class TopicAdmin(BlockingClient[TopicCalls]):
    """See `barnabas.client.sync.Admin`."""

    def __init__(self, config: Mapping[str, object] | None = None, **options: object) -> None:
        super().__init__(*start_client("barnabas-topics", lambda: _made(config, options)))

    def close(self) -> None:
        self._end(self._client.cluster.close())

    reach = blocking(TopicCalls.reach)
    create_topics = blocking(TopicCalls.create_topics)
    delete_topics = blocking(TopicCalls.delete_topics)
    list_topics = blocking(TopicCalls.list_topics)
    describe_topics = blocking(TopicCalls.describe_topics)
    create_partitions = blocking(TopicCalls.create_partitions)


def _made(config: Mapping[str, object] | None, options: Mapping[str, object]) -> TopicCalls:
    settings = admin_options(config, options)
    return TopicCalls(settings, Cluster(settings))
