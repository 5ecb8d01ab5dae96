"""Units of time: clocks and timers count nanoseconds, options and the protocol milliseconds."""

from __future__ import annotations

from typing import Final

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
