"""Cluster metadata: feature levels, records, deltas, images, snapshots, and the loader."""
