"""The ids of topics in the offsets of checkpoints.

They stand beside the topics, so that a topic that was deleted and created again is told from the one that was
read.  No topic can have this name.
"""

IDS = "@ids"
