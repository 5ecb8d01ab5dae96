"""The same requests to Apache Kafka and then to a broker of ours: same file, same cluster id, same port, same folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.verify.answers.broker_ask import Plain
from tests.verify.nodes.broker_node import apache_then_ours

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
# Asks all there is to ask at a port, with so many seconds after each change; the answers by title.
AskAll = Callable[[int, float], dict[str, Plain]]


@dataclass(frozen=True)
class Answers:
    """By title; `theirs` is Apache Kafka's."""

    theirs: dict[str, Plain]
    ours: dict[str, Plain]
    faults: list[str]


def answers_of_both(
    oracle: Callable[..., Any],
    home: Path,
    settings: Mapping[str, str],
    ask_all: AskAll,
    *,
    apache_settles_s: float,
    ours_settles_s: float,
) -> Answers:
    with apache_then_ours(oracle, home, settings, "--cluster-id", CLUSTER_ID) as (apache, ours):
        theirs = ask_all(ours.port, apache_settles_s)
        apache.stop()
        shutil.rmtree(apache.data)
        ours.format(CLUSTER_ID)
        ours.start()
        found = ask_all(ours.port, ours_settles_s)
        ours.stop()
        return Answers(theirs, found, ours.faults())
