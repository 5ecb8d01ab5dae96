"""`barnabas dev --control PORT`: brokers in memory for tests in any language, with faults on demand over
HTTP."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import CommandError, Exit

if TYPE_CHECKING:
    from barnabas.testing.kit.cluster import Cluster


def serve(options: Namespace, overrides: dict[str, str]) -> int:
    """Until Ctrl+C."""
    import logging

    from barnabas.cli.server.server_logs import logging_to
    from barnabas.config.errors import ConfigError
    from barnabas.testing.kit.cluster import Cluster

    level = logging.INFO if options.verbose else logging.ERROR
    try:
        with (
            logging_to(None, options.log_format, level),
            Cluster(options.brokers, port=options.port, options=overrides) as cluster,
        ):
            _control(cluster, options.control)
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error
    except OSError as error:
        raise CommandError(f"barnabas: a port is not free: {error}; see --port and --control") from error
    return Exit.OK


def _control(cluster: Cluster, port: int) -> None:
    from barnabas.testing.kit.control import ControlServer

    with ControlServer(cluster, port) as server:
        print(
            f"barnabas: {len(cluster.brokers)} brokers in memory, for tests\n"
            f"  bootstrap servers  {cluster.bootstrap_servers}\n"
            f"  control            {server.url}\n"
            f"  see it             curl {server.url}\n"
            "Ctrl+C stops it."
        )
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
