"""A time for records of brokers with default retention: one of the past would be deleted with its segment."""

from __future__ import annotations

import time

# An hour ago, so that times a little later are not in the future either.
RECENT_MS = int(time.time() * 1000) - 3_600_000
