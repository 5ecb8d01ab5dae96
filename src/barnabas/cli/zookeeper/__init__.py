"""Apache ZooKeeper's servers and shell: run from a wheel of PyPI, or from an installed ZooKeeper."""
