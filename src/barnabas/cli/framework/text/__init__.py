"""Text for people: examples in the help, lines of a terminal."""
