"""Topics and groups as tests use them: written, read, waited for; records, their codecs and their files."""
