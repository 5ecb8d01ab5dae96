"""`python -m barnabas` is the command `barnabas`."""

from __future__ import annotations

import sys

from barnabas.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
