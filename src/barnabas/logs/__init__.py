"""Log lines of any format: time, level, service, message, template.  Without a broker, without Spark."""
