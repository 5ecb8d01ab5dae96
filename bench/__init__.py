"""Benchmarks: rows of work, each measured beside the systems people would otherwise use."""
