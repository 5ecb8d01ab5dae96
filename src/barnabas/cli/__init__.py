"""The command line: one module or package per tool."""
