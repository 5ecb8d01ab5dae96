"""Records that were deleted before they were read: an error or a warning, according to failOnDataLoss."""

from __future__ import annotations

import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)

ADVICE = (
    "they were removed by retention, or the topic was deleted or re-created, before they were read; "
    "to continue without them, set the option failOnDataLoss to false"
)


class DataLossError(RuntimeError):
    """Records can no longer be read."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """The reaction to lost records."""

    fail: bool

    def lost(self, what: str) -> None:
        """Raise or log; `what` is the beginning of a sentence."""
        if self.fail:
            raise DataLossError(f"{what}: {ADVICE}")
        logger.warning("%s; continuing without, as failOnDataLoss is false", what)
