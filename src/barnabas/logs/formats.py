"""The formats of text lines, one row each.

The groups of a pattern are `time`, `level`, `service` and `message`; `priority` (syslog) and `status` (HTTP)
give the level too; every other group becomes a field.  Rows that say more about a line come first: of two
formats that fit a sample equally well the first is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barnabas.logs.times import (
    BSD,
    CLOCK,
    COMMON,
    COMPACT,
    CTIME,
    DAY_FIRST,
    ISO,
    KLOG,
    MONTH_DAY,
    PACKED,
    SLASHED,
)


@dataclass(frozen=True, slots=True)
class Format:
    """A layout of lines."""

    name: str
    pattern: re.Pattern[str]
    # A line whose level is none is not of this format.
    needs_level: bool


_ACCESS = (
    r"(?:(?P<host>[\w.-]+(?::\d+)?) )?(?P<client>[^\s,-][^\s,]*(?:, [^\s,]+)*) \S+ "
    r'(?P<user>\S+(?: \S+)*?) \[(?P<time>COMMON)\] "(?P<message>(?:[^"\\]|\\.)*)"'
    r" (?P<status>\d{3}) (?P<bytes>\d+|-)"
)
# Whether the word is a level, the reader checks: alternations of all levels make slow patterns.
_LEVEL = r"[A-Za-z]{3,13}\d?"
_QUOTED = r'"(?P<NAME>(?:[^"\\]|\\.)*)"'
_TAG = r"(?P<service>[^\s:\[](?:[^:\[]{0,78}[^\s:\[])?)(?:\[(?P<pid>[^\]]*)\])?(?: \((?P<detail>[^)]*)\))?:"
_LOGGER = r"(?P<service>[A-Za-z_$][\w.$/*-]*)"

_ROWS = (
    # RFC 5424, section 6.
    (
        "rfc5424",
        (
            r"<(?P<priority>\d{1,3})>1 (?P<time>-|\S+) (?P<host>\S+) (?P<service>\S+) (?P<pid>\S+) (?P<msgid>\S+) "
            r'(?P<structured>-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])+)(?: (?:\ufeff)?(?P<message>.*))?'
        ),
    ),
    # RFC 3164, section 4.1, as files hold it (without the priority) and as it is sent; then rsyslog's
    # RSYSLOG_FileFormat and systemd's short-iso.
    ("rfc3164", rf"(?:<(?P<priority>\d{{1,3}})>)?(?P<time>BSD) (?P<host>\S+) {_TAG} ?(?P<message>.*)"),
    ("rfc3164", r"(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD) (?P<host>\S+) (?P<message>.*)"),
    # Kubernetes' klog (glog): Lmmdd hh:mm:ss.uuuuuu threadid file:line] msg
    (
        "klog",
        r"(?P<level>[IWEF])(?P<time>KLOG)\s+(?P<thread>\d+) (?P<source>[^\]\s]+:\d+)\] ?(?P<message>.*)",
    ),
    # Android's logcat: threadtime, time and brief.
    (
        "logcat",
        (
            r"(?P<time>(?:\d{4}-)?MONTH_DAY)\s+(?P<pid>\d+)\s+(?P<tid>\d+)\s+(?P<level>[VDIWEFA])\s+"
            r"(?P<service>.*?)\s*:(?: (?P<message>.*)|$)"
        ),
    ),
    (
        "logcat",
        (
            r"(?:(?P<time>(?:\d{4}-)?MONTH_DAY) )?(?P<level>[VDIWEFA])/(?P<service>[^(]*?)\s*\(\s*(?P<pid>\d+)\): "
            r"(?P<message>.*)"
        ),
    ),
    # The access logs of nginx (combined) and Apache (combined, common).
    ("access", rf"{_ACCESS} {_QUOTED.replace('NAME', 'referrer')} {_QUOTED.replace('NAME', 'agent')}.*"),
    ("access", _ACCESS),
    # Django's server; Envoy; gin; squid; IIS (W3C extended, its default fields).
    ("access", r'\[(?P<time>COMMON)\] "(?P<message>[^"]*)" (?P<status>\d{3}) (?P<bytes>\d+)'),
    ("access", r'\[(?P<time>ISO)\] "(?P<message>[A-Z]+ [^"]*)" (?P<status>\d{3}) (?P<rest>.*)'),
    (
        "access",
        (
            r"\[GIN\] (?P<time>\d{4}/\d\d/\d\d - \d\d:\d\d:\d\d) \|\s*(?P<status>\d{3})\s*\|\s*(?P<duration>\S+)\s*"
            r"\|\s*(?P<client>\S+)\s*\|\s*(?P<message>.*)"
        ),
    ),
    (
        "access",
        (
            r"(?P<time>\d{10}\.\d{3})\s+(?P<duration>\d+) (?P<client>\S+) (?P<result>\w+)/(?P<status>\d{3}) "
            r"(?P<bytes>\d+) (?P<message>\S+ \S+) (?P<rest>.*)"
        ),
    ),
    (
        "access",
        (
            r"(?P<time>ISO) (?P<host>[\d.:a-f]+) (?P<message>[A-Z]+ \S+ \S+) (?P<port>\d+) (?P<user>\S+) (?P<client>\S+) "
            r"(?P<agent>\S+)(?: (?P<referrer>\S+))? (?P<status>\d{3}) \d+ \d+ (?P<duration>\d+)"
        ),
    ),
    # The error logs of nginx, and of Apache 2.4 and 2.2.
    (
        "nginx-error",
        (
            r"(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[(?P<level>[a-z]+)\] (?P<pid>\d+)#(?P<tid>\d+): "
            r"(?:\*(?P<connection>\d+) )?(?P<message>.*)"
        ),
    ),
    (
        "apache-error",
        (
            r"\[(?P<time>CTIME)\] \[(?P<service>[\w.-]*):(?P<level>\w+)\] \[pid (?P<pid>\d+)(?::tid (?P<tid>\d+))?\] "
            r"(?P<message>.*)"
        ),
    ),
    ("apache-error", r"\[(?P<time>CTIME)\] \[(?P<level>[a-z]+)\] (?P<message>.*)"),
    # Windows' servicing and set-up logs (CBS.log, DISM, setupact.log).
    (
        "windows",
        r"(?P<time>ISO), (?P<level>LEVEL)\s+(?:\[(?P<code>0x\w+)\] )?(?:(?P<service>[A-Z][\w.]*)\s+)?(?P<message>.*)",
    ),
    # Spring Boot.
    (
        "spring",
        (
            r"(?P<time>ISO)\s+(?P<level>LEVEL)\s+(?P<pid>\d+) --- (?:\[(?P<application>[^\]]*)\] )?"
            r"\[\s*(?P<thread>[^\]]*)\] (?:\[(?P<correlation>[^\]]*)\] )?(?P<service>\S+)\s*: (?P<message>.*)"
        ),
    ),
    # OpenStack's oslo.log: time process level name [request ids] message, perhaps after the name of its file.
    (
        "oslo",
        (
            r"(?:(?P<file>\S*\.log\S*) )?(?P<time>ISO) (?P<pid>\d+) (?P<level>LEVEL) (?P<service>[\w.-]+) "
            r"\[(?P<request>[^\]]*)\] ?(?P<message>.*)"
        ),
    ),
    # loguru and other layouts with bars.
    (
        "loguru",
        (
            r"(?P<time>ISO) ?\| ?(?P<level>LEVEL)\s*\| ?(?P<service>[\w.<>-]+):(?P<function>[\w.<>-]+):(?P<line>\d+) - "
            r"(?P<message>.*)"
        ),
    ),
    (
        "bars",
        r"(?P<time>ISO|COMPACT) ?\| ?(?P<level>LEVEL)\s*\| ?(?P<service>[\w.$<>:-]+) ?\| ?(?P<message>.*)",
    ),
    ("bars", r"(?P<time>ISO|COMPACT)\|(?P<service>[\w.$ -]+)\|(?P<pid>\d+)\|(?P<message>.*)"),
    # Python's logging in usual layouts: the how-to's, basicConfig's, celery's, gunicorn's.
    ("python", r"(?P<time>ISO) - (?P<service>[\w.-]+) - (?P<level>LEVEL) - (?P<message>.*)"),
    ("python", r"(?P<time>ISO) - (?P<level>LEVEL) - (?P<message>.*)"),
    (
        "python",
        r"\[(?P<time>ISO)(?: [+-]\d{4})?\] \[(?P<pid>\d+)\] \[(?P<level>LEVEL)\] (?P<message>.*)",
    ),
    ("python", r"\[(?P<time>ISO): (?P<level>LEVEL)/(?P<process>[\w-]+)\] (?P<message>.*)"),
    ("python", r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<service>[\w.-]+):(?P<message>.*)"),
    # log4j and logback: %d [%X] - %p [%t:%C@%L] - %m (ZooKeeper's), %d %p [%t] %c: %m (Hadoop's),
    # [%d] %p %m (%c) (Kafka's), %d [%t] %p %c - %m (logback's), %d %p %c: %m (Spark's, HDFS's).
    (
        "log4j",
        r"(?P<time>ISO) (?:\[(?P<context>[^\]]*)\] )?- (?P<level>LEVEL)\s+\[(?P<thread>.*?)\] - (?P<message>.*)",
    ),
    (
        "log4j",
        rf"(?P<time>ISO|CLOCK) +(?P<level>LEVEL)\s+\[(?P<thread>.*?)\] {_LOGGER}\s*(?: --?|:) ?(?P<message>.*)",
    ),
    ("log4j", r"\[(?P<time>ISO)\] (?P<level>LEVEL)\s+(?P<message>.*) \((?P<service>[\w.$-]+)\)"),
    (
        "log4j",
        rf"(?P<time>ISO|CLOCK) +\[(?P<thread>.*?)\] (?P<level>LEVEL)\s+{_LOGGER}\s*(?:--?|:) (?P<message>.*)",
    ),
    ("log4j", rf"(?P<time>ISO|SLASHED|CLOCK) +(?P<level>LEVEL)\s+{_LOGGER}(?: -|:)(?: (?P<message>.*)|$)"),
    ("log4j", rf"(?P<time>PACKED|ISO) (?P<pid>\d+) (?P<level>LEVEL) {_LOGGER}:(?: (?P<message>.*)|$)"),
    ("log4j", rf"(?P<elapsed>\d+) +\[(?P<thread>.*?)\] (?P<level>LEVEL)\s+{_LOGGER}\s*- (?P<message>.*)"),
    # JBoss and WildFly; Elasticsearch and Logstash; Cassandra.
    (
        "log4j",
        r"(?P<time>ISO|CLOCK) +(?P<level>LEVEL)\s+\[(?P<service>[\w.$-]+)\] \((?P<thread>[^)]*)\) (?P<message>.*)",
    ),
    (
        "log4j",
        (
            r"\[(?P<time>ISO)\]\[(?P<level>LEVEL)\s*\]\[(?P<service>[^\]\s]+)\s*\] ?(?:\[(?P<node>[^\]]*)\] ?)?"
            r"(?P<message>.*)"
        ),
    ),
    (
        "log4j",
        r"(?P<level>LEVEL)\s+\[(?P<thread>.*?)\] (?P<time>ISO) (?P<service>\w+)\.java:(?P<line>\d+) - (?P<message>.*)",
    ),
    # Tomcat's.
    (
        "tomcat",
        rf"(?P<time>DAY_FIRST) (?P<level>LEVEL) \[(?P<thread>[^\]]*)\] {_LOGGER} (?P<message>.*)",
    ),
    # Python's other layouts: name first, Airflow's, Flask's, levels in brackets; structlog's console, Tornado's and Jupyter's.
    ("python", r"(?P<time>ISO) (?P<service>[A-Za-z_][\w.]*) (?P<level>LEVEL) (?P<message>.*)"),
    (
        "python",
        r"\[(?P<time>ISO)\] \{(?P<source>[\w.-]+:\d+)\} (?P<level>LEVEL) - (?P<message>.*)",
    ),
    ("python", r"\[(?P<time>ISO)\] (?P<level>LEVEL) in (?P<service>[\w.]+): (?P<message>.*)"),
    ("python", r"\[(?P<time>ISO)\] \[(?P<level>LEVEL)\s*\] \[(?P<service>[\w.-]+)\] (?P<message>.*)"),
    ("python", r"(?P<time>ISO) \[(?P<level>LEVEL)\s*\] (?P<service>[A-Za-z_][\w.-]*): (?P<message>.*)"),
    (
        "structlog",
        (
            r"(?P<time>ISO) \[(?P<level>[a-z]+) +\] (?P<message>.*?)(?:\s{2,}\[(?P<service>[\w.]+)\])?\s*"
            r"(?P<pairs>(?:(?:^|(?<=\s))[\w.]+=(?:'[^']*'|\"[^\"]*\"|\S+)\s*)*)"
        ),
    ),
    (
        "tornado",
        r"\[(?P<level>[DIWECF]) (?P<time>PACKED|ISO) (?P<service>[^\]\s:]+)(?::(?P<line>\d+))?\] (?P<message>.*)",
    ),
    # Go: zap's console, etcd's.
    (
        "zap",
        (
            r"(?P<time>ISO)\t(?P<level>LEVEL)\t(?:(?P<service>[\w.-]+)\t)?(?:(?P<source>[^\t]+:\d+)\t)?(?P<message>[^\t]*)"
            r"(?:\t(?P<data>\{.*\}))?"
        ),
    ),
    ("etcd", r"(?P<time>ISO) (?P<level>[DINWEC]) \| (?P<service>[\w./-]+): (?P<message>.*)"),
    # Rust: env_logger, tracing.
    ("rust", r"\[(?P<time>ISO) (?P<level>LEVEL)\s+(?P<service>[\w:.-]+)\] (?P<message>.*)"),
    (
        "rust",
        (
            r"(?P<time>ISO)\s+(?P<level>LEVEL) (?:(?P<span>\w+\{.*?\}): )?(?P<service>[a-z_]\w*(?:::\w+)*): "
            r"(?P<message>.*)"
        ),
    ),
    # Ruby's Logger; Monolog and Laravel; PHP.
    (
        "ruby",
        r"[DIWEFA], \[(?P<time>ISO) #(?P<pid>\d+)\]\s+(?P<level>LEVEL) -- (?P<service>[^:]*): (?P<message>.*)",
    ),
    ("monolog", r"\[(?P<time>ISO)\] (?P<service>[\w.-]+)\.(?P<level>LEVEL): (?P<message>.*)"),
    (
        "php",
        r"\[(?P<time>DAY_FIRST)(?: [\w/]+)?\] PHP (?P<level>Fatal|Warning|Notice|Deprecated|Parse)[\w ]*: +(?P<message>.*)",
    ),
    # Servers: Envoy and spdlog, MySQL, MongoDB before 4.4, Redis, RabbitMQ, BIND; the kernel's ring and auditd.
    (
        "spdlog",
        (
            r"\[(?P<time>ISO)\](?:\[(?P<thread>\d+)\])?\[(?P<level>[a-z]+)\]\[(?P<service>[\w.-]+)\] "
            r"(?:\[(?P<source>[^\]]+:\d+)\] )?(?P<message>.*)"
        ),
    ),
    (
        "mysql",
        r"(?P<time>ISO) (?P<thread>\d+) \[(?P<level>\w+)\] \[(?P<code>MY-\d+)\] \[(?P<service>\w+)\] (?P<message>.*)",
    ),
    (
        "mongodb",
        r"(?P<time>ISO) (?P<level>[FEWID]) (?P<service>[A-Z]+) +\[(?P<thread>[^\]]*)\] (?P<message>.*)",
    ),
    ("redis", r"(?P<pid>\d+):(?P<role>[MSXC]) (?P<time>DAY_FIRST) (?P<level>[.*#-]) (?P<message>.*)"),
    ("rabbitmq", r"(?P<time>ISO) \[(?P<level>[a-z]+)\] <(?P<process>[\d.]+)> (?P<message>.*)"),
    ("bind", r"(?P<time>DAY_FIRST) (?P<service>[\w-]+): (?P<level>[a-z]+): (?P<message>.*)"),
    ("kernel", r"(?:<(?P<priority>\d+)>)?\[ *(?P<uptime>\d+\.\d{6})\] (?P<message>.*)"),
    (
        "audit",
        r"type=(?P<service>\w+) msg=audit\((?P<time>\d{10}\.\d{3}):(?P<id>\d+)\): ?(?P<message>.*)",
    ),
    ("syslog-iso", rf"(?P<time>\d{{4}}-\S+) (?P<host>[\w.-]*[a-z][\w.-]*) {_TAG} (?P<message>.*)"),
)
_PARTS = {
    "DAY_FIRST": DAY_FIRST,
    "COMMON": COMMON,
    "COMPACT": COMPACT,
    "MONTH_DAY": MONTH_DAY,
    "SLASHED": SLASHED,
    "PACKED": PACKED,
    "CLOCK": CLOCK,
    "CTIME": CTIME,
    "LEVEL": _LEVEL,
    "KLOG": KLOG,
    "BSD": BSD,
    "ISO": ISO,
}
_PART = re.compile(
    r"(?<![A-Z|_])(?:"
    + "|".join(_PARTS)
    + r")(?![A-Z_])|(?<=\|)(?:ISO|COMPACT|CLOCK|SLASHED|PACKED|LEVEL)(?=[|)])"
)


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of the table, with the names of its parts replaced."""
    return re.compile(_PART.sub(lambda part: _PARTS[part[0]], pattern), re.DOTALL)


def named(name: str, pattern: str) -> Format:
    """A format of a pattern whose groups are called as those of the table; ISO, LEVEL and so on stand for the
    usual times and levels.  Raises ValueError."""
    try:
        expression = compiled(pattern)
    except re.error as error:
        raise ValueError(f"the format {name}: {error}") from error
    if not expression.groupindex or len(expression.groupindex) != expression.groups:
        raise ValueError(f"the format {name}: every group needs a name, such as (?P<message>.*)")
    return Format(name, expression, "(?P<level>LEVEL" in pattern)


FORMATS = tuple(named(name, pattern) for name, pattern in _ROWS)
