"""What servers write in layouts of their own: databases, brokers, name servers."""

from __future__ import annotations

ROWS = (
    # Servers: Envoy and spdlog, MySQL, MongoDB before 4.4, Redis, RabbitMQ, BIND.
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
    # MySQL's before 8.0, and MariaDB's.
    ("mysql", r"(?P<time>ISO) +(?P<thread>\d+) \[(?P<level>LEVEL)\] (?:(?P<service>\w+): )?(?P<message>.*)"),
    # PostgreSQL's, whatever its log_line_prefix holds besides time and process; and its CSV.
    (
        "postgres",
        (
            r"(?P<time>ISO)(?: [A-Z]{3,5})? \[(?P<pid>\d+)\]:? (?:\[[\d-]+\] )?(?:(?P<client>\S.*?):? )??"
            r"(?P<level>LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG[1-5]?|STATEMENT|DETAIL|HINT|CONTEXT|QUERY|LOCATION):"
            r"  (?P<message>.*)"
        ),
    ),
    (
        "postgres",
        (
            r"(?P<time>ISO)(?: [A-Z]{3,5})?,(?P<session>.*?),(?P<level>LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG\d?),"
            r'(?P<code>[\dA-Z]{5}),"(?P<message>(?:[^"]|"")*)",(?P<rest>.*)'
        ),
    ),
    # SQL Server's; ClickHouse's; GlusterFS'; Asterisk's; Unbound's; Mosquitto's and Nagios'.
    ("sqlserver", r"(?P<time>ISO) (?P<service>spid\d+s?|Server|Logon|Backup)\s+(?P<message>.*)"),
    (
        "clickhouse",
        (
            r"(?P<time>ISO) \[ (?P<thread>\d+) \] \{(?P<query>[^}]*)\} <(?P<level>LEVEL)> (?P<service>[^:]+): "
            r"(?P<message>.*)"
        ),
    ),
    (
        "glusterfs",
        (
            r"\[(?P<time>ISO)\] (?P<level>[IWEDTNAC]) (?:\[MSGID: (?P<code>\d+)\] )?\[(?P<source>[^\]]+)\] "
            r"(?P<service>\S+): (?P<message>.*)"
        ),
    ),
    (
        "asterisk",
        (
            r"\[(?P<time>BSD|ISO)\] (?P<level>LEVEL)\[(?P<thread>\d+)\](?:\[(?P<call>[^\]]*)\])?:? "
            r"(?P<service>[\w.-]+):(?:\d+ \w+:)? (?P<message>.*)"
        ),
    ),
    (
        "unbound",
        r"\[(?P<time>\d{10})\] (?P<service>[\w.-]+)\[(?P<pid>[\d:]+)\] (?P<level>LEVEL): (?P<message>.*)",
    ),
    ("nagios", r"\[(?P<time>\d{10})\] (?P<message>.*)"),
    ("mosquitto", r"(?P<time>1\d{9}): (?P<message>.*)"),
    (
        "mongodb",
        r"(?P<time>ISO) (?P<level>[FEWID]) (?P<service>[A-Z]+) +\[(?P<thread>[^\]]*)\] (?P<message>.*)",
    ),
    ("redis", r"(?P<pid>\d+):(?P<role>[MSXC]) (?P<time>DAY_FIRST) (?P<level>[.*#-]) (?P<message>.*)"),
    ("rabbitmq", r"(?P<time>ISO) \[(?P<level>[a-z]+)\] <(?P<process>[\d.]+)> (?P<message>.*)"),
    ("bind", r"(?P<time>DAY_FIRST) (?P<service>[\w-]+): (?P<level>[a-z]+): (?P<message>.*)"),
)
