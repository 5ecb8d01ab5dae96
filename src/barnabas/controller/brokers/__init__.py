"""Brokers and controllers: registration, heartbeats, fencing, directories, producer id blocks."""
