"""Formats whose records are blocks of lines, and columns that a line names.  # M-I3"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from barnabas.logs.files import read_records
from barnabas.logs.reader import Reader
from barnabas.logs.records import Record

ARRIVAL = datetime(2026, 11, 18, 12)


def records(text: str) -> list[Record]:
    return list(Reader(ARRIVAL).records(text.strip().split("\n")))


def field(name: str, value: bytes) -> bytes:
    """A value that is no plain text, as journald exports it."""
    return b"%s\n%s%s\n" % (name.encode(), len(value).to_bytes(8, "little"), value)


def entry(number: int, message: bytes) -> bytes:
    plain = (
        f"__CURSOR=s=1;i={number}\n__REALTIME_TIMESTAMP=171455760000000{number}\n_PID={number}\nPRIORITY=4\n"
    )
    said = field("MESSAGE", message) if b"\n" in message else b"MESSAGE=" + message + b"\n"
    return plain.encode() + said + b"SYSLOG_IDENTIFIER=cron\n_HOSTNAME=web\n\n"


def test_the_export_of_journald(tmp_path: Path) -> None:
    messages = [
        b"plain", b"two\nlines", b"a=b\nERROR\nGONE=1", b"x" * 300 + b"\nlong", "\u00fcber\nall".encode(),
        b"ten bytes\n",
    ]  # fmt: skip
    file = tmp_path / "export"
    file.write_bytes(b"".join(entry(number, message) for number, message in enumerate(messages)))
    found = list(read_records(str(file)))
    assert [record.message for record in found] == [message.decode().rstrip("\n") for message in messages]
    assert {(record.format, record.level, record.service) for record in found} == {
        ("journal", "WARN", "cron")
    }
    assert [record.time for record in found][:2] == ["2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000001Z"]
    assert (found[1].fields["_PID"], found[1].fields["_HOSTNAME"]) == ("1", "web")


def test_an_entry_of_journald_that_a_batch_cut() -> None:
    reader = Reader(ARRIVAL, format="journal")
    lines = [line for n, text in enumerate((b"first", b"second")) for line in entry(n, text).decode().split()]
    assert [record.message for record in reader.records(lines[:9])] == ["first", "\n".join(lines[7:9])]
    (rest,) = reader.records(lines[9:])
    assert (rest.message, rest.service, rest.time) == ("second", "cron", None)


def test_slow_queries_of_mysql() -> None:
    first, second = records("""
# Time: 2024-05-01T10:00:00.123456Z
# User@Host: app[app] @ web.local [10.0.0.1]  Id:     8
# Query_time: 2.000123  Lock_time: 0.000004 Rows_sent: 1  Rows_examined: 5000
use shop;
SET timestamp=1714557600;
SELECT *
  FROM orders WHERE note = '# Time: x';
# User@Host: app[app] @ localhost []  Id:     9
# Query_time: 3.5  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 1
SET timestamp=1714557601;
SELECT sleep(3);
""")
    assert (first.format, first.time) == ("mysql-slow", "2024-05-01T10:00:00.123456Z")
    assert first.message == "SELECT *\n  FROM orders WHERE note = '# Time: x';"
    known = {"user": "app", "client": "web.local", "database": "shop", "query_time": "2.000123"}
    assert known.items() <= first.fields.items()
    assert (second.time, second.message, second.lines) == ("2024-05-01T10:00:01Z", "SELECT sleep(3);", 4)


def test_two_lines_of_java_util_logging() -> None:
    first, second = records("""
May 01, 2024 1:00:00 PM com.example.Main main
INFO: Server started
May 01, 2024 1:00:01 PM com.example.Main$Job run
SEVERE: it failed
java.lang.IllegalStateException: x
\tat com.example.Main.main(Main.java:1)
""")
    assert (first.format, first.time, first.level) == ("java", "2024-05-01T13:00:00", "INFO")
    assert (first.service, first.message) == ("com.example.Main", "Server started")
    assert (second.level, second.message) == ("ERROR", "it failed")
    trace = "java.lang.IllegalStateException: x\n\tat com.example.Main.main(Main.java:1)"
    assert second.fields["trace"] == trace


def test_the_console_of_dotnet() -> None:
    first, second = records("""
info: Microsoft.Hosting.Lifetime[14]
      Now listening on: http://localhost:5000
fail: Microsoft.AspNetCore.Server.Kestrel[13]
      => ConnectionId:0HN
      Connection id "0HN": an unhandled exception was thrown.
      System.InvalidOperationException: x
""")
    assert (first.format, first.level, first.service) == ("dotnet", "INFO", "Microsoft.Hosting.Lifetime")
    assert first.message == "Now listening on: http://localhost:5000"
    assert (second.level, second.fields["trace"]) == ("ERROR", "      System.InvalidOperationException: x")
    assert second.message == 'Connection id "0HN": an unhandled exception was thrown.'


def test_samba_and_the_alert_log_of_oracle() -> None:
    (smb,) = records("""
[2024/05/01 10:00:00.123456,  0] ../../source3/smbd/server.c:1788(main)
  smbd version 4.17.12-Debian started.
""")
    assert (smb.format, smb.time) == ("samba", "2024-05-01T10:00:00.123456")
    assert smb.message == "smbd version 4.17.12-Debian started."
    first, second = records("""
2024-05-01T10:00:00.123456+02:00
Thread 1 advanced to log sequence 123 (LGWR switch)
  Current log# 3 seq# 123 mem# 0: /u01/redo03.log
2024-05-01T10:00:01.000000+02:00
ORA-00060: Deadlock detected.
""")
    assert (first.format, first.message) == ("oracle", "Thread 1 advanced to log sequence 123 (LGWR switch)")
    assert (second.time, second.message) == (
        "2024-05-01T10:00:01.000000+02:00",
        "ORA-00060: Deadlock detected.",
    )


def test_a_time_alone_in_a_line_does_not_make_blocks_of_other_formats() -> None:
    lines = ["2024-05-01 10:00:00", *[f"2024-05-01 10:00:0{n},123 INFO [main] a.B: c {n}" for n in range(9)]]
    found = list(Reader(ARRIVAL).records(lines))
    assert [record.format for record in found[1:]] == ["log4j"] * 9


def test_columns_that_a_line_names() -> None:
    found = records("""
#Software: Microsoft Internet Information Services 10.0
#Version: 1.0
#Date: 2024-05-01 10:00:00
#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken
2024-05-01 10:00:00 10.0.0.1 GET /index.html a=1 443 - 1.2.3.4 Mozilla/5.0 200 15
2024-05-01 10:00:01 10.0.0.1 POST /x - 443 bob 1.2.3.4 Mozilla/5.0 503 15
""")
    assert {record.format for record in found} == {"w3c"}
    first, second = found[4:]
    assert (first.time, first.level, first.message) == ("2024-05-01T10:00:00", "INFO", "GET /index.html?a=1")
    assert (second.level, second.message, second.fields["status"]) == ("ERROR", "POST /x", "503")
    assert ("cs-username" in first.fields, second.fields["cs-username"]) == (False, "bob")


def test_columns_of_zeek() -> None:
    *_, last = records("""
#separator \\x09
#path\tconn
#fields\tts\tuid\tid.orig_h\tservice
1714557600.123456\tC1\t10.0.0.1\tdns
""")
    assert (last.format, last.time, last.fields["uid"]) == ("w3c", "2024-05-01T10:00:00.123456Z", "C1")
