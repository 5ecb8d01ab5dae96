"""docs/reference/client.md, from the signatures and docstrings of the client."""
