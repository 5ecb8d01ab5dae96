"""Errors of ports that cannot be opened, with the reason and advice."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator


class CannotListenError(Exception):
    """A port or an address cannot be opened; the message has the reason and advice."""

    def __init__(self, place: object, error: OSError, option: str) -> None:
        super().__init__(f"cannot listen on {place}: {_reason(error, option)}")
        self.place = place
        self.error = error
        self.option = option

    def by_option(self, option: str) -> str:
        """Returns the message for a port that another option sets."""
        return f"cannot listen on {self.place}: {_reason(self.error, option)}"


@contextlib.contextmanager
def taking(place: object, option: str) -> Iterator[None]:
    """Turns a refused port into a CannotListenError; `option` sets the port."""
    try:
        yield
    except OSError as error:
        raise CannotListenError(place, error, option) from error


def _reason(error: OSError, option: str) -> str:
    advice = {
        errno.EADDRINUSE: f"another program, perhaps a broker, has this port; stop it or change {option}",
        errno.EADDRNOTAVAIL: f"this machine has no such address; correct the host in {option}",
        errno.EACCES: f"ports below 1024 need privileges; choose a higher one in {option}",
        errno.EMFILE: "too many open files; raise the limit (ulimit -n) and restart",
    }
    return advice.get(error.errno or 0, error.strerror or str(error))
