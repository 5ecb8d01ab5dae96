"""Shared by all tools: arguments, subcommands, connections, exit codes, errors."""
