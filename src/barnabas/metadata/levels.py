"""The levels of `metadata.version` from which a feature or record version is available."""

from __future__ import annotations

CONTROLLED_SHUTDOWN_LEVEL = 7  # 3.3-IV3, KIP-841: controlled shutdown is recorded in the registration.
ZK_MIGRATION_LEVEL = 8  # 3.4-IV0, KIP-866
SCRAM_LEVEL = 11  # 3.5-IV2, KIP-900
# 3.6-IV0, KIP-903: before it, shrinking the ISR required a new leader epoch.
ISR_SHRINK_KEEPS_EPOCH_LEVEL = 12
TRANSACTIONS_LEVEL = 13  # 3.6-IV1, KIP-868: atomic changes that span several batches.
DELEGATION_TOKENS_LEVEL = 14  # 3.6-IV2, KIP-900
CONTROLLER_REGISTRATION_LEVEL = 15  # 3.7-IV0, KIP-919
DIRECTORIES_LEVEL = 17  # 3.7-IV2, KIP-858
ELR_LEVEL = 23  # 4.0-IV1, KIP-966

# Levels that changed record contents: a downgrade below one of them would lose metadata.
LEVELS_WITH_NEW_RECORDS = (
    CONTROLLED_SHUTDOWN_LEVEL,
    ZK_MIGRATION_LEVEL,
    SCRAM_LEVEL,
    TRANSACTIONS_LEVEL,
    DELEGATION_TOKENS_LEVEL,
    CONTROLLER_REGISTRATION_LEVEL,
    DIRECTORIES_LEVEL,
    ELR_LEVEL,
)
