"""Exit codes, and the errors that carry one.

Every failure has a non-zero code (the most common fault of command-line tools is to exit with 0).
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    NOT_FOUND = 5
    TIMED_OUT = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141  # As the shell reports a program ended by SIGPIPE; `| head` is not an error.
    TERMINATED = 143  # As the shell reports a program ended by SIGTERM.


class CommandError(Exception):
    """The command failed.  The message is the one line that the user sees."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class HelpShownError(Exception):
    """Help, the version or the usage has been printed; there is nothing left to do."""

    def __init__(self, message: str = "", code: Exit = Exit.OK) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: OSError) -> Exit:
    """The exit code for an error of the operating system."""
    if isinstance(error, FileNotFoundError):
        return Exit.NOT_FOUND
    if isinstance(error, PermissionError):
        return Exit.DENIED
    return Exit.FAILED


def describe(error: OSError) -> str:
    """One line: the file, then the reason."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def one_line(text: str) -> str:
    """The text with line breaks and other control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
