"""From a socket to a handler: listeners, connections, request contexts, dispatch, the table of routes."""
