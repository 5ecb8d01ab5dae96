"""Types of what programs pass to the clients: options as TypedDicts, serializers."""
