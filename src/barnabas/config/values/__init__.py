"""Values of options: parsing, validation, durations, Java properties files."""
