"""Ports that are not to be had: one line that says why, and what to change."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator


class CannotListenError(Exception):
    """A port or an address is not to be had; the message says which and what to do."""

    def __init__(self, place: object, error: OSError, option: str) -> None:
        super().__init__(f"cannot listen on {place}: {_reason(error, option)}")
        self.place = place
        self.error = error
        self.option = option

    def by_option(self, option: str) -> str:
        """The message for whoever chooses the port by another option."""
        return f"cannot listen on {self.place}: {_reason(self.error, option)}"


@contextlib.contextmanager
def taking(place: object, option: str) -> Iterator[None]:
    """Meanwhile a refused port becomes a CannotListenError; `option` is what to change for another one."""
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
