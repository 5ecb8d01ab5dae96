"""Access logs and error logs of servers, proxies and clouds."""

from __future__ import annotations

ASKED = r'\[(?P<time>COMMON)\] "(?P<message>[^"\\]*(?:\\.[^"\\]*)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
ACCESS = (
    r"(?:(?P<host>[\w.-]+(?::\d+)?) )?(?P<client>[^\s,-][^\s,]*(?:, [^\s,]+)*) \S+ "
    rf"(?P<user>\S+(?: \S+)*?) {ASKED}"
)
QUOTED = r'"(?P<NAME>[^"\\]*(?:\\.[^"\\]*)*)"'
COMBINED = f" {QUOTED.replace('NAME', 'referrer')} {QUOTED.replace('NAME', 'agent')}.*"

ROWS = (
    # The access logs of nginx (combined) and Apache (combined, common).
    ("access", rf"(?P<client>[^\s,-][^\s,]*) \S+ (?P<user>\S+) {ASKED}{COMBINED}"),
    ("access", ACCESS + COMBINED),
    ("access", ACCESS),
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
    # HAProxy's of HTTP and of TCP; load balancers, distributions and buckets of AWS, and flows in its networks.
    (
        "haproxy",
        (
            r"(?P<client>\S+):\d+ \[(?P<time>COMMON)\] (?P<service>\S+) (?P<backend>\S+) (?P<timers>[\d/+-]+) "
            r'(?P<status>\d{3}|-1) (?P<bytes>\d+) (?P<rest>.*) "(?P<message>[^"]*)"'
        ),
    ),
    (
        "haproxy",
        r"(?P<client>\S+):\d+ \[(?P<time>COMMON)\] (?P<service>\S+) (?P<message>\S+/\S+ [\d/+-]+ .*)",
    ),
    (
        "elb",
        (
            r"(?:(?P<type>https?|h2|grpcs?|wss?) )?(?P<time>ISO) (?P<service>\S+) (?P<client>\S+) (?P<target>\S+) "
            r"\S+ \S+ \S+ (?P<status>\d{3}|-) (?P<target_status>\d+|-) (?P<received>\d+) (?P<bytes>\d+) "
            r'"(?P<message>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)" (?P<rest>.*)'
        ),
    ),
    (
        "cloudfront",
        (
            r"(?P<time>\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d)\t(?P<edge>\S+)\t(?P<bytes>\d+)\t(?P<client>\S+)\t(?P<method>[A-Z]+)\t"
            r"(?P<host>\S+)\t(?P<path>\S+)\t(?P<status>\d{3})\t(?P<rest>.*)"
        ),
    ),
    (
        "s3",
        (
            r"(?P<owner>[0-9a-f]{64}|-) (?P<service>\S+) \[(?P<time>COMMON)\] (?P<client>\S+) (?P<requester>\S+) "
            r'(?P<request>\S+) (?P<operation>[A-Z\d]+\.\S+) (?P<key>\S+) "(?P<message>(?:[^"\\]|\\.)*)" '
            r"(?P<status>\d{3}|-) (?P<rest>.*)"
        ),
    ),
    (
        "vpc-flow",
        r"(?P<message>\d (?P<account>\d+) (?P<interface>eni-\w+) .* (?P<time>\d{10}) \d{10} (?P<action>ACCEPT|REJECT|-) \S+)",
    ),
    # What Heroku's router and dynos write; functions of AWS Lambda (Node's and Python's).
    ("heroku", r"(?P<time>ISO) (?P<service>[\w-]+)\[(?P<process>[\w.-]+)\]: (?P<message>.*)"),
    ("lambda", r"(?P<time>ISO)\t(?P<request>[\da-f-]{36}|undefined)\t(?P<level>LEVEL)\t(?P<message>.*)"),
    ("lambda", r"\[(?P<level>LEVEL)\]\t(?P<time>ISO)\t(?P<request>[\da-f-]{36})\t(?P<message>.*)"),
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
    # PHP-FPM's.
    ("php-fpm", r"\[(?P<time>DAY_FIRST)\] (?P<level>LEVEL): (?P<message>.*)"),
)
