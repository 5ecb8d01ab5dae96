"""Records that were there and are no more: an error, or a warning, as failOnDataLoss says."""

from __future__ import annotations

import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)

ADVICE = (
    "they were removed by retention, or the topic was deleted or made anew, before they were read; "
    "to go on without them, set the option failOnDataLoss to false"
)


class DataLossError(RuntimeError):
    """Records cannot be read any more."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """What to do about lost records."""

    fail: bool

    def lost(self, what: str) -> None:
        """`what` is a sentence's beginning: what is not there."""
        if self.fail:
            raise DataLossError(f"{what}: {ADVICE}")
        logger.warning("%s; going on without, as failOnDataLoss is false", what)
