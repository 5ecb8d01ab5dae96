"""What systems and their networks write: syslog, kernels, audits, devices."""

from __future__ import annotations

# The tag of a syslog message: program, process, and what launchd adds.
TAG = r"(?P<service>[^\s:\[](?:[^:\[]{0,78}[^\s:\[])?)(?:\[(?P<pid>[^\]]*)\])?(?: \((?P<detail>[^)]*)\))?:"

ROWS = (
    # RFC 5424, section 6.
    (
        "rfc5424",
        (
            r"<(?P<priority>\d{1,3})>1 (?P<time>-|\S+) (?P<host>\S+) (?P<service>\S+) (?P<pid>\S+) (?P<msgid>\S+) "
            r'(?P<structured>-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])+)(?: (?:\ufeff)?(?P<message>.*))?'
        ),
    ),
    # ArcSight's CEF and QRadar's LEEF, perhaps behind syslog's header.
    (
        "cef",
        (
            r"(?:(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD|ISO) (?P<host>\S+) )?CEF:\d\|(?P<vendor>(?:[^|\\]|\\.)*)\|"
            r"(?P<service>(?:[^|\\]|\\.)*)\|(?P<version>(?:[^|\\]|\\.)*)\|(?P<id>(?:[^|\\]|\\.)*)\|"
            r"(?P<message>(?:[^|\\]|\\.)*)\|(?P<risk>[^|]*)\|(?P<pairs>.*)"
        ),
    ),
    (
        "leef",
        (
            r"(?:(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD|ISO) (?P<host>\S+) )?LEEF:[\d.]+\|(?P<vendor>[^|]*)\|"
            r"(?P<service>[^|]*)\|(?P<version>[^|]*)\|(?P<message>[^|]*)\|(?P<pairs>.*)"
        ),
    ),
    # Cisco's, as its devices write and as syslog keeps it; then Dovecot's own file, and a header without a host.
    (
        "cisco",
        (
            r"(?:(?P<sequence>\d+): )?[*.]?(?P<time>BSD(?: UTC)?)(?: [A-Z]{3,4})?: "
            r"(?P<service>%[A-Z][\w-]*-(?P<severity>[0-7])-\w+): (?P<message>.*)"
        ),
    ),
    (
        "rfc3164",
        (
            r"(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD) (?P<host>\S+) (?:: )?"
            r"(?P<service>%[A-Z][\w-]*-(?P<severity>[0-7])-\w+): (?P<message>.*)"
        ),
    ),
    (
        "dovecot",
        (
            r"(?P<time>BSD) (?P<service>[\w-]+)(?:\((?P<user>[^)]*)\))?(?:<[^>]*>)*: "
            r"(?P<level>Debug|Info|Warning|Error|Fatal|Panic): (?P<message>.*)"
        ),
    ),
    (
        "rfc3164",
        r"(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD) (?P<service>[\w./-]+)\[(?P<pid>\d+)\]: ?(?P<message>.*)",
    ),
    # RFC 3164, section 4.1, as files hold it (without the priority) and as it is sent; then rsyslog's
    # RSYSLOG_FileFormat and systemd's short-iso.
    ("rfc3164", rf"(?:<(?P<priority>\d{{1,3}})>)?(?P<time>BSD) (?P<host>[^\s\[]\S*) {TAG} ?(?P<message>.*)"),
    ("rfc3164", r"(?:<(?P<priority>\d{1,3})>)?(?P<time>BSD) (?P<host>[^\s\[]\S*) (?P<message>.*)"),
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
)
# Tried last: others say more about a line that fits both.
LAST_ROWS = (
    ("kernel", r"(?:<(?P<priority>\d+)>)?\[ *(?P<uptime>\d+\.\d{6})\] (?P<message>.*)"),
    (
        "audit",
        r"(?:node=(?P<host>\S+) )?type=(?P<service>\w+) msg=audit\((?P<time>\d{10}\.\d{3}):(?P<id>\d+)\): ?(?P<message>.*)",
    ),
    (
        "kernel",
        r"(?P<service>kern|user|daemon|auth|syslog) *:(?P<level>LEVEL) *: \[ *(?P<uptime>\d+\.\d{6})\] (?P<message>.*)",
    ),
    ("kernel", r"(?P<time>ISO) (?P<message>(?:usb|pci|scsi|ata|eth|wlan)\w* [\w.:-]+: .*)"),
    ("kernel", r"\[(?P<time>CTIME)\] (?P<message>.*)"),
    ("syslog-iso", rf"(?P<time>\d{{4}}-\S+) (?P<host>[\w.-]*[a-z][\w.-]*) {TAG} (?P<message>.*)"),
    # systemd's short-full and short-unix.
    (
        "syslog-iso",
        rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<time>ISO)(?: [A-Z][A-Z\d+-]{{1,4}})? (?P<host>\S+) {TAG} (?P<message>.*)",
    ),
    ("syslog-iso", rf"(?P<time>\d{{10}}\.\d{{6}}) (?P<host>\S+) {TAG} (?P<message>.*)"),
    # Apple's unified log; the X server; pacman; Suricata's and Snort's alerts.
    (
        "unified-log",
        (
            r"(?P<time>ISO) (?P<thread>0x[0-9a-f]+)\s+(?P<level>LEVEL)\s+(?P<activity>0x[0-9a-f]+)\s+(?P<pid>\d+)\s+"
            r"\d+\s+(?P<service>[^:]+): (?P<message>.*)"
        ),
    ),
    (
        "xorg",
        r"\[ *(?P<uptime>\d+\.\d{3})\] (?:\((?P<level>II|WW|EE|NI|--|==|\*\*|\+\+|!!|\?\?)\) )?(?P<message>.*)",
    ),
    ("pacman", r"\[(?P<time>ISO)\] \[(?P<service>[A-Z-]+)\] (?P<message>.*)"),
    (
        "suricata",
        (
            r"(?P<time>\d\d/\d\d/\d{4}-CLOCK)  \[\*\*\] \[(?P<id>[\d:]+)\] (?P<message>.*?) \[\*\*\]"
            r"(?: \[Classification: (?P<class>[^\]]*)\])?(?: \[Priority: (?P<rank>\d)\])? (?P<flow>.*)"
        ),
    ),
)
