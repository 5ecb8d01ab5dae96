"""Changes of options and log levels that this broker validates itself."""
