"""Benchmarks: rows, each measured against the systems people would otherwise use."""
