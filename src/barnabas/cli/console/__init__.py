"""console-producer and console-consumer: lines to records, records to text."""
