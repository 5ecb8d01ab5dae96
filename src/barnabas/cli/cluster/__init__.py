"""`barnabas cluster`: a local cluster of processes; the id, nodes and brokers of any cluster."""
