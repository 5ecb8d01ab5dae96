"""Python's logging into a topic.

    import logging
    from barnabas.logging import Handler

    logging.getLogger().addHandler(Handler("logs", bootstrap_servers="localhost:9092", service="shop"))

What lives here: a handler, and the JSON that it writes unless it is given a formatter.  While the broker is
away records wait in the producer's buffer (`buffer_memory`); when that is full, whoever logs waits for room.
What is not written within `delivery_timeout_ms` (five minutes unless told otherwise) is counted in `lost`.
The end of the program waits `close_timeout_ms` (half a minute) at most.
"""

from barnabas.logging.handler import Handler, JsonFormatter

__all__ = ["Handler", "JsonFormatter"]
