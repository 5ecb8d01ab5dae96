"""What programs write by the loggers of their languages."""

from __future__ import annotations

LOGGER = r"(?P<service>[A-Za-z_$][\w.$/*-]*)"

ROWS = (
    # supervisord: its words look like the names of loggers.
    (
        "supervisord",
        (
            r"(?P<time>ISO) (?P<level>LEVEL) (?P<message>(?:spawned|exited|success|stopped|gave up|reaped|received|killing"
            r"|waiting|supervisord|daemonizing|RPC|Set|Supervisor|Included|Creating)\b.*)"
        ),
    ),
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
        rf"(?P<time>ISO|CLOCK) +(?P<level>LEVEL)\s+\[(?P<thread>.*?)\] {LOGGER}(?::\d+)?\s*(?: --?|:) ?(?P<message>.*)",
    ),
    ("log4j", r"\[(?P<time>ISO)\] (?P<level>LEVEL)\s+(?P<message>.*) \((?P<service>[\w.$-]+)(?::\d+)?\)"),
    (
        "log4j",
        rf"(?P<time>ISO|CLOCK) +\[(?P<thread>.*?)\] (?P<level>LEVEL)\s+{LOGGER}(?::\d+)?\s*(?:--?|:) (?P<message>.*)",
    ),
    (
        "log4j",
        rf"(?P<time>ISO|SLASHED|CLOCK) +(?P<level>LEVEL)\s+{LOGGER}(?::\d+)?(?: *\[[^\]]*\])?(?: -|:)(?: (?P<message>.*)|$)",
    ),
    ("log4j", rf"(?P<time>PACKED|ISO) (?P<pid>\d+) (?P<level>LEVEL) {LOGGER}:(?: (?P<message>.*)|$)"),
    ("log4j", rf"(?P<elapsed>\d+) +\[(?P<thread>.*?)\] (?P<level>LEVEL)\s+{LOGGER}\s*- (?P<message>.*)"),
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
    # Gerrit's; Dropwizard's; Jetty's; ActiveMQ's; Storm's; Play's; Akka's; Jenkins'; Solr's; NiFi's, without a sign
    # behind the class; Trino's.
    (
        "log4j",
        rf"\[(?P<time>ISO)\] \[(?P<thread>.*?)\] (?P<level>LEVEL)\s+{LOGGER}\s*(?:-|:) (?P<message>.*)",
    ),
    ("log4j", rf"(?P<level>LEVEL)\s+\[(?P<time>ISO)\] (?:\[(?P<thread>.*?)\] )?{LOGGER}: (?P<message>.*)"),
    ("jetty", rf"(?P<time>ISO):(?P<level>LEVEL):{LOGGER}:(?P<thread>[^:]*): (?P<message>.*)"),
    (
        "bars",
        r"(?P<time>ISO) \| (?P<level>LEVEL)\s*\| (?P<message>.*) \| (?P<service>[\w$]+(?:\.[\w$]+)+) \| (?P<thread>[^|]*)",
    ),
    ("log4j", rf"(?P<time>ISO) {LOGGER} (?P<thread>\S+) \[(?P<level>LEVEL)\] (?P<message>.*)"),
    ("log4j", rf"(?P<time>ISO) \[(?P<level>LEVEL)\s*\] {LOGGER} - (?P<message>.*)"),
    (
        "akka",
        r"\[(?P<level>LEVEL)\] \[(?P<time>[\d/:. -]+)\] \[(?P<thread>[^\]]*)\] \[(?P<service>[^\]]*)\] (?P<message>.*)",
    ),
    (
        "jenkins",
        r"(?P<time>ISO) \[id=(?P<thread>\d+)\]\t(?P<level>LEVEL)\t(?P<service>[\w.$#]+): (?P<message>.*)",
    ),
    (
        "solr",
        (
            r"(?P<time>ISO) (?P<level>LEVEL)\s+\((?P<thread>[^)]*)\)(?: \[(?P<context>[^\]]*)\])? "
            r"(?P<service>[\w.$]+) (?P<message>.*)"
        ),
    ),
    (
        "log4j",
        (
            r"(?P<time>ISO) (?P<level>LEVEL)\s+\[(?P<thread>.*?)\] (?P<service>[a-z][\w$]*(?:\.[\w$]+){2,}) "
            r"(?P<message>.*)"
        ),
    ),
    (
        "trino",
        (
            r"(?P<time>ISO)\t(?P<level>LEVEL)\t(?P<thread>[^\t]+)\t(?P<service>[\w$-]+(?:\.[\w$-]+)+|[A-Z]\w+)\t"
            r"(?P<message>.*)"
        ),
    ),
    (
        "weblogic",
        (
            r"####<(?P<time>HALVES)(?: [A-Z]{3,4})?> <(?P<level>LEVEL)> <(?P<service>[^>]*)> <(?P<host>[^>]*)> "
            r"<(?P<server>[^>]*)> .* <(?P<code>[\w-]*)> <(?P<message>.*)>\s*"
        ),
    ),
    # Java's own: of the virtual machine.
    ("jvm", r"\[(?P<uptime>[\d.]+s)\]\[(?P<level>LEVEL)\s*\]\[(?P<service>[\w,+]+)\s*\] (?P<message>.*)"),
    # Tomcat's.
    (
        "tomcat",
        rf"(?P<time>DAY_FIRST) (?P<level>LEVEL) \[(?P<thread>[^\]]*)\] {LOGGER} (?P<message>.*)",
    ),
    # Python's other layouts: name first, Airflow's, Flask's, levels in brackets; structlog's console, Tornado's and Jupyter's.
    ("python", r"(?P<time>ISO) (?P<service>[A-Za-z_][\w.]*) (?P<level>LEVEL) (?P<message>.*)"),
    (
        "python",
        r"\[(?P<time>ISO)\] \{(?P<source>[\w.-]+:\d+)\} (?P<level>LEVEL) - (?P<message>.*)",
    ),
    ("python", r"\[(?P<time>ISO)\] (?P<level>LEVEL) in (?P<service>[\w.]+): (?P<message>.*)"),
    ("python", r"\[(?P<time>ISO)\] \[(?P<level>LEVEL)\s*\] \[(?P<service>[\w.-]+)\] (?P<message>.*)"),
    (
        "python",
        r"(?P<time>ISO) \[(?P<level>LEVEL)\s*\]\s+(?!msg:)(?P<service>[A-Za-z_][\w.-]*): (?P<message>.*)",
    ),
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
    # Scrapy's; cloud-init's; Salt's; Ansible's; Ray's; fail2ban's; TensorFlow's and vLLM's.
    ("python", r"(?P<time>ISO) \[(?P<service>[A-Za-z_][\w.-]*)\] (?P<level>LEVEL): (?P<message>.*)"),
    ("python", r"(?P<time>ISO) - (?P<service>[\w.]+)\[(?P<level>LEVEL)\]: (?P<message>.*)"),
    (
        "python",
        (
            r"(?P<time>ISO) \[(?P<service>[\w.-]+)\s*:(?P<line>\d+)\s*\]\[(?P<level>LEVEL)\s*\](?:\[(?P<pid>\d+)\])? "
            r"(?P<message>.*)"
        ),
    ),
    ("ansible", r"(?P<time>ISO) p=(?P<pid>\d+) u=(?P<user>\S+)(?: n=(?P<service>\S+))? \| ?(?P<message>.*)"),
    ("python", r"(?P<time>ISO)\s(?P<level>LEVEL) (?P<service>[\w.-]+:\d+) -- (?P<message>.*)"),
    ("python", r"(?P<time>ISO) (?P<service>[\w.]+)\s+\[(?P<pid>\d+)\]: (?P<level>LEVEL)\s+(?P<message>.*)"),
    ("tensorflow", r"(?P<time>ISO): (?P<level>[IWEF]) (?P<source>[^\]\s]+:\d+)\] (?P<message>.*)"),
    ("python", r"(?P<level>LEVEL) (?P<time>MONTH_DAY) \[(?P<source>[^\]]+:\d+)\] (?P<message>.*)"),
    # Go: zap's console, etcd's.
    (
        "zap",
        (
            r"(?P<time>ISO)\t(?P<level>LEVEL)\t(?:(?P<service>[\w.-]+)\t)?(?:(?P<source>[^\t]+:\d+)\t)?(?P<message>[^\t]*)"
            r"(?:\t(?P<data>\{.*\}))?"
        ),
    ),
    ("etcd", r"(?P<time>ISO) (?P<level>[DINWEC]) \| (?P<service>[\w./-]+): (?P<message>.*)"),
    # Go's logrus and zerolog on a terminal; Nomad, Consul and Vault; NATS; Geth; CockroachDB and TiDB.
    (
        "logrus",
        (
            r"(?P<level>TRAC|DEBU|INFO|WARN|ERRO|FATA|PANI)\[(?:(?P<time>ISO)|(?P<uptime>\d{4,}))\]\s*(?P<message>.*?)\s*"
            r"(?P<pairs>(?:(?<=\s)[\w.]+=(?:\"[^\"]*\"|\S+)\s*)*)"
        ),
    ),
    (
        "zerolog",
        (
            r"(?P<time>ISO|\d{1,2}:\d\d[AP]M) (?P<level>TRC|DBG|INF|WRN|ERR|FTL|PNC) (?:(?P<source>\S+:\d+) > )?"
            r"(?P<message>.*)"
        ),
    ),
    ("nats", r"\[(?P<pid>\d+)\] (?P<time>ISO) \[(?P<level>LEVEL)\] (?P<message>.*)"),
    ("geth", r"(?P<level>LEVEL)\s*\[(?P<time>\d\d-\d\d\|CLOCK)\] (?P<message>.*)"),
    (
        "klog",
        (
            r"(?P<level>[IWEF])(?P<time>\d{6} CLOCK) (?P<thread>\d+) (?:\d+@)?(?P<source>[^\]\s]+:\d+)\s+(?:\u22ee )?"
            r"(?:\[(?P<tags>[^\]]*)\]\s+)?(?P<message>.*)"
        ),
    ),
    (
        "tidb",
        (
            r"\[(?P<time>ISO)\] \[(?P<level>LEVEL)\] \[(?P<source>[\w.-]+:\d+)\] \[\"?(?P<message>.*?)\"?\]"
            r"(?: (?P<pairs>\[[\w.-]+=.*))?"
        ),
    ),
    # Elixir's; Sidekiq's; NestJS'; Minecraft's; Chromium's.
    ("elixir", r"(?P<time>CLOCK) (?P<pairs>(?:\w+=\S+ )*)\[(?P<level>LEVEL)\]\s+(?P<message>.*)"),
    ("sidekiq", r"(?P<time>ISO) (?P<pairs>(?:\w+=\S+ )+)(?P<level>LEVEL): (?P<message>.*)"),
    (
        "nest",
        (
            r"\[Nest\] (?P<pid>\d+)\s+- (?P<time>HALVES)\s+(?P<level>LEVEL) (?:\[(?P<service>[^\]]+)\] )?"
            r"(?P<message>.*)"
        ),
    ),
    (
        "minecraft",
        (
            r"\[(?P<time>\d\d:\d\d:\d\d)\] \[(?P<thread>[^\]/]*)/(?P<level>LEVEL)\](?: \[(?P<service>[^\]]+)\])?: "
            r"(?P<message>.*)"
        ),
    ),
    (
        "chromium",
        (
            r"\[(?:(?P<pid>\d+):(?P<tid>\d+):)?(?P<time>\d{4}/\d{6}\.\d{3,6}):(?P<level>LEVEL):(?P<source>[^\]]+)\] "
            r"(?P<message>.*)"
        ),
    ),
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
)
