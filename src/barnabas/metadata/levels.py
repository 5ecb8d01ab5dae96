"""What each level of `metadata.version` brought: from which one on something may be written."""

from __future__ import annotations

CONTROLLED_SHUTDOWN_LEVEL = 7  # 3.3-IV3, KIP-841: a broker on its way out is known as such.
ZK_MIGRATION_LEVEL = 8  # 3.4-IV0, KIP-866
SCRAM_LEVEL = 11  # 3.5-IV2, KIP-900
# 3.6-IV0, KIP-903: until then a shrinking ISR needed a new leader epoch.
ISR_SHRINK_KEEPS_EPOCH_LEVEL = 12
TRANSACTIONS_LEVEL = 13  # 3.6-IV1, KIP-868: records take effect together, over several batches.
DELEGATION_TOKENS_LEVEL = 14  # 3.6-IV2, KIP-900
CONTROLLER_REGISTRATION_LEVEL = 15  # 3.7-IV0, KIP-919
DIRECTORIES_LEVEL = 17  # 3.7-IV2, KIP-858
ELR_LEVEL = 23  # 4.0-IV1, KIP-966

# Levels that changed what records may hold: going back below one of them would lose something.
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
