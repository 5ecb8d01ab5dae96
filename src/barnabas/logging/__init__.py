"""Python's logging into a topic.

    import logging
    from barnabas.logging import Handler

    logging.getLogger().addHandler(Handler("logs", bootstrap_servers="localhost:9092", service="shop"))

What lives here: a handler, and the JSON that it writes unless it is given a formatter.  Nothing is lost while
the broker is away: records wait in the producer's buffer (`buffer_memory`), and when that is full, whoever
logs waits, `max_block_ms` at most.
"""

from barnabas.logging.handler import Handler, JsonFormatter

__all__ = ["Handler", "JsonFormatter"]
