"""Small programs to read and to run: `make demo`, or `python -m examples.NAME`."""
