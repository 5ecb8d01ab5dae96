"""The metadata modes of a cluster: KRaft, or ZooKeeper."""
