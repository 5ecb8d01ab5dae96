"""Requests of coordinators, and of partition leaders to coordinators, on other brokers."""
