"""A handler that sends Python's log records to a topic.

    import logging
    from barnabas.logging import Handler

    logging.getLogger().addHandler(Handler("logs", bootstrap_servers="localhost:9092", service="shop"))

Records are JSON unless a formatter is set.  While the broker is unavailable records wait in the producer's
buffer (`buffer_memory`); when it is full, logging calls block.  Records that are not written within
`delivery_timeout_ms` (default: five minutes) are counted in `lost`.  Exiting the program waits for
`close_timeout_ms` (default: 30 seconds) at most.
"""

from barnabas.logging.handler import Handler, JsonFormatter

__all__ = ["Handler", "JsonFormatter"]
