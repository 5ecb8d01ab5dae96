"""The producer: interceptors, serializers, partitioner, accumulator, sender."""
