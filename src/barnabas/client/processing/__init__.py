"""Work on records: handlers for topics (`App`), and transactions as blocks of a program."""
