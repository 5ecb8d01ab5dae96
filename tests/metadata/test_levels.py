"""The levels of metadata.version, by the names of Apache Kafka's `MetadataVersion`."""

from __future__ import annotations

import pytest

from barnabas.metadata import levels
from barnabas.metadata.features import METADATA_VERSIONS

# The first level with the feature, and the KIP.
NAMES = {
    "CONTROLLED_SHUTDOWN_LEVEL": "3.3-IV3",  # KIP-841
    "ZK_MIGRATION_LEVEL": "3.4-IV0",  # KIP-866
    "SCRAM_LEVEL": "3.5-IV2",  # KIP-900
    "ISR_SHRINK_KEEPS_EPOCH_LEVEL": "3.6-IV0",  # KIP-903
    "TRANSACTIONS_LEVEL": "3.6-IV1",  # KIP-868
    "DELEGATION_TOKENS_LEVEL": "3.6-IV2",  # KIP-900
    "CONTROLLER_REGISTRATION_LEVEL": "3.7-IV0",  # KIP-919
    "DIRECTORIES_LEVEL": "3.7-IV2",  # KIP-858
    "ELR_LEVEL": "4.0-IV1",  # KIP-966
}


@pytest.mark.parametrize("constant", NAMES)
def test_a_level_is_that_of_its_release(constant: str) -> None:
    (version,) = (version for version in METADATA_VERSIONS if version.name == NAMES[constant])
    assert getattr(levels, constant) == version.level


def test_all_but_one_changed_records() -> None:
    """Shrinking an ISR without a new epoch changed a rule, not a record."""
    constants = {getattr(levels, name) for name in NAMES} - {levels.ISR_SHRINK_KEEPS_EPOCH_LEVEL}
    assert tuple(sorted(constants)) == levels.LEVELS_WITH_NEW_RECORDS
    assert {name for name in vars(levels) if name.endswith("_LEVEL")} == set(NAMES)
