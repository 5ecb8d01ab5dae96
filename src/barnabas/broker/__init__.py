"""The broker: the composition root, its listeners, and a handler for each API."""
