"""The command line: one file a tool."""
