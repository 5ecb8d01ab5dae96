"""The group and transaction coordinators of a broker: shards on their logs, markers, producer ids."""
