"""A quorum of controllers over a network that loses and duplicates messages."""
