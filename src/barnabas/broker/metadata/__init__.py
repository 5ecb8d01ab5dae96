"""The broker's lifecycle, its metadata publishers, the clients' view of the cluster, and automatic topics."""
