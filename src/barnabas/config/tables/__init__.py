"""The option tables of each scope, in files by theme.  Contains rows only."""
