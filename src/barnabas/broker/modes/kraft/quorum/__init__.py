"""The metadata quorum between nodes: its messages on the wire, and the connections that carry them."""
