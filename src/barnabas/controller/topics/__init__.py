"""Topics and partitions: creation, growth, placement, deletion."""
