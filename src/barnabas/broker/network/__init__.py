"""The network layer: listeners, connections, request contexts, dispatch and routes."""
