"""What every tool shares: arguments, subcommands, connections, exit codes, errors."""
