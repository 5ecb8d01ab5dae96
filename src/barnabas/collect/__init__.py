"""Collecting logs: lines of files, standard input and syslog become records.

Reading order: `lines` (bytes into lines), `progress` (acknowledged chunks), `positions` (saved offsets of
files), `files`, `standard_input`, `syslog` (the sources), `collector` (from sources to a topic).  Delivery is
at least once: a position is saved only after everything before it was acknowledged.
"""

from barnabas.collect.collector import Collector
from barnabas.collect.files import FileSource
from barnabas.collect.standard_input import StandardInput
from barnabas.collect.syslog import SyslogAddress, SyslogSource

__all__ = ["Collector", "FileSource", "StandardInput", "SyslogAddress", "SyslogSource"]
