"""Faults on demand: rules for requests, and what befalls nodes, disks, links, groups and transactions."""
