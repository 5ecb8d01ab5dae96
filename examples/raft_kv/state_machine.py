"""The replicated state machine: the same log gives the same store on every server."""

import json

EMPTY = b"[0, 0, {}, {}]"
REMEMBERED = 1000  # results of commands, for clients that send a command again


class Store:
    """Depends on the committed log and on nothing else: no clock, no random number, no local setting.

    A command is `{"id": "7f3a", "key": "colour", "value": "blue"}`; without a value it is a get.
    """

    def __init__(self, snapshot: bytes) -> None:
        # The end of what was applied, the epoch of its last batch, the values, and the results by id.
        self.offset, self.epoch, self.values, self.results = json.loads(snapshot)

    def snapshot(self) -> bytes:
        return json.dumps([self.offset, self.epoch, self.values, self.results]).encode()

    def apply(self, command: dict[str, str]) -> object:
        """Returns the value of the key.  A command that is in the log twice takes effect once."""
        if command["id"] not in self.results:
            if "value" in command:
                self.values[command["key"]] = command["value"]
            self.results[command["id"]] = self.values.get(command["key"])
            if len(self.results) > REMEMBERED:
                del self.results[next(iter(self.results))]
        return self.results[command["id"]]
