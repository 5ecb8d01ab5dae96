"""The friendly face of the command line: topic, produce, consume, tail, group, explain, top, segment."""
