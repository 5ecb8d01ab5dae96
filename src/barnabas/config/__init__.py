"""The tables of options: one row an option, from which parser, answers, help and docs come."""
