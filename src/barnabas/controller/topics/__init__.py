"""Topics and partitions: creation, expansion, placement, deletion."""
