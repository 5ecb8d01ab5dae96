"""One module per scenario, with the bugs it must find.  Every module here is run by `make sim`."""
