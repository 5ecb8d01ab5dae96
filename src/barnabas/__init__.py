"""barnabas: an event streaming platform in Python, compatible with the Apache Kafka protocol."""

__version__ = "0.1.0"
