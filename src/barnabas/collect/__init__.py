"""Collecting logs: lines of files, of the standard input and of syslog become records.

Reading order: `lines` (bytes into lines), `progress` (what is written already), `positions` (where to go on
after a restart), `files`, `standard_input`, `syslog` (where lines come from), `collector` (from there to a
topic).  At least once: a position is saved only after everything before it was acknowledged.
"""

from barnabas.collect.collector import Collector
from barnabas.collect.files import FileSource
from barnabas.collect.standard_input import StandardInput
from barnabas.collect.syslog import SyslogAddress, SyslogSource

__all__ = ["Collector", "FileSource", "StandardInput", "SyslogAddress", "SyslogSource"]
