"""Znodes: their paths and their JSON, as Apache Kafka 3.9 writes and reads them.  Pure."""
