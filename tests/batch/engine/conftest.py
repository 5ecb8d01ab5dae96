"""Where nothing is compiled there is no second engine to compare: its tests do not exist there."""

from __future__ import annotations

from barnabas.batch.engine import COMPILED, engine_state

collect_ignore = [] if engine_state().state == COMPILED else ["test_parity.py"]
