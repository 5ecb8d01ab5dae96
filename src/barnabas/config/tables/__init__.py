"""The rows: every option of a scope, in files by theme.  Nothing but rows lives here."""
