"""The layouts of text lines, as rows for `barnabas.logs.formats`: a name, and a pattern."""
