"""Cluster metadata: feature levels and, later, records to images."""
