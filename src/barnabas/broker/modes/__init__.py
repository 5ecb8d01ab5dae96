"""Where the metadata of a cluster lives: in a quorum of its own, or in ZooKeeper."""
