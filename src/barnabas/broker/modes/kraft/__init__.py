"""KRaft mode: the metadata log on disk, its quorum, the controller driven over it, snapshots."""
