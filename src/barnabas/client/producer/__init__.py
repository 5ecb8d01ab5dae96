"""The producer: interceptors, serialisers, partitioner, accumulator, sender."""
