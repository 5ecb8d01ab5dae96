"""The quorum that keeps the metadata log: pure step machines."""
