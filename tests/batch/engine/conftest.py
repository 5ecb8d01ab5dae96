"""Without a compiled engine there is no second one to compare: its tests are not collected."""

from __future__ import annotations

from barnabas.batch.engine import COMPILED, engine_state

collect_ignore = [] if engine_state().state == COMPILED else ["test_parity.py"]
