"""Hand-made lines of systems and networks, with what they say."""

from __future__ import annotations

from tests.logs.lines import Expected

SYSTEM_LINES: tuple[Expected, ...] = (
    ('2024-05-01T10:00:00+0200 web systemd[1]: Started nginx.service - A high performance web server.', 'syslog-iso', '2024-05-01T10:00:00+02:00', None, 'systemd', 'Started nginx.service - A high performance web server.'),
    ('May 01 10:00:00.123456 web sshd[1234]: Accepted publickey for root from 10.0.0.1 port 5000 ssh2', 'rfc3164', '2026-05-01T10:00:00.123456', None, 'sshd', 'Accepted publickey for root from 10.0.0.1 port 5000 ssh2'),
    ('Wed 2024-05-01 10:00:00 CEST web systemd[1]: Started nginx.service.', 'syslog-iso', '2024-05-01T10:00:00', None, 'systemd', 'Started nginx.service.'),
    ('Wed 2024-05-01 10:00:00 UTC web kernel: oom', 'syslog-iso', '2024-05-01T10:00:00Z', None, 'kernel', 'oom'),
    ('1714557600.123456 web sshd[1234]: Connection closed', 'syslog-iso', '2024-05-01T10:00:00.123456Z', None, 'sshd', 'Connection closed'),
    ('[    5.123456] web kernel: eth0: link up', 'kernel', None, None, None, 'web kernel: eth0: link up'),
    ('[    0.000000] Linux version 6.1.0-18-amd64', 'kernel', None, None, None, 'Linux version 6.1.0-18-amd64'),
    ('[Wed May  1 10:00:00 2024] usb 1-1: new high-speed USB device number 2', 'kernel', '2024-05-01T10:00:00', None, None, 'usb 1-1: new high-speed USB device number 2'),
    ('kern  :warn  : [    1.234567] ACPI: thermal throttled', 'kernel', None, 'WARN', 'kern', 'ACPI: thermal throttled'),
    ('2024-05-01T10:00:00,123456+02:00 usb 1-1: new high-speed USB device', 'kernel', '2024-05-01T10:00:00.123456+02:00', None, None, 'usb 1-1: new high-speed USB device'),
    ('type=SYSCALL msg=audit(1364481363.243:24287): arch=c000003e syscall=2 success=no exit=-13 ppid=2686 pid=3538 comm="cat" exe="/bin/cat" key="sshd_config"', 'audit', '2013-03-28T14:36:03.243000Z', None, 'SYSCALL', 'arch=c000003e syscall=2 success=no exit=-13 ppid=2686 pid=3538 comm="cat" exe="/bin/cat" key="sshd_config"'),
    ('node=web type=USER_LOGIN msg=audit(1714557600.123:1): pid=1 uid=0 res=failed', 'audit', '2024-05-01T10:00:00.123000Z', None, 'USER_LOGIN', 'pid=1 uid=0 res=failed'),
    ('CEF:0|Security|threatmanager|1.0|100|worm successfully stopped|10|src=10.0.0.1 dst=2.1.2.2 spt=1232', 'cef', None, 'FATAL', 'threatmanager', 'worm successfully stopped'),
    ('Sep 19 08:26:10 host CEF:0|Security|threatmanager|1.0|100|detected a \\| in message|5|src=10.0.0.1 act=blocked a | dst=1.1.1.1', 'cef', '2026-09-19T08:26:10', 'WARN', 'threatmanager', 'detected a \\| in message'),
    ('<134>2024-05-01T10:00:00Z fw CEF:0|Palo Alto Networks|PAN-OS|10.1|end|TRAFFIC|3|rt=May 01 2024 10:00:00 GMT src=10.0.0.1', 'cef', '2024-05-01T10:00:00Z', 'INFO', 'PAN-OS', 'TRAFFIC'),
    ('LEEF:1.0|Microsoft|MSExchange|4.0 SP1|15345|src=192.0.2.0\tdst=172.50.123.1\tsev=5', 'leef', None, None, 'MSExchange', '15345'),
    ('May  1 10:00:00 fw1 %ASA-6-302013: Built outbound TCP connection 123 for outside', 'rfc3164', '2026-05-01T10:00:00', 'INFO', '%ASA-6-302013', 'Built outbound TCP connection 123 for outside'),
    ('*May  1 10:00:00.123: %SYS-5-CONFIG_I: Configured from console by vty0', 'cisco', '2026-05-01T10:00:00.123', 'INFO', '%SYS-5-CONFIG_I', 'Configured from console by vty0'),
    ('000123: May  1 10:00:00.123 UTC: %LINEPROTO-5-UPDOWN: Line protocol on Interface Gi0/1, changed state to down', 'cisco', '2026-05-01T10:00:00.123Z', 'INFO', '%LINEPROTO-5-UPDOWN', 'Line protocol on Interface Gi0/1, changed state to down'),
    ('05/01/2024-10:00:00.123456  [**] [1:2008983:6] ET USER_AGENTS Suspicious [**] [Classification: A Network Trojan was detected] [Priority: 1] {TCP} 10.0.0.1:1234 -> 1.2.3.4:80', 'suricata', '2024-05-01T10:00:00.123456', None, None, 'ET USER_AGENTS Suspicious'),
    ('{"timestamp":"2024-05-01T10:00:00.123456+0000","event_type":"alert","src_ip":"10.0.0.1","alert":{"signature":"ET SCAN Potential SSH Scan","severity":2}}', 'json', '2024-05-01T10:00:00.123456+00:00', None, None, 'ET SCAN Potential SSH Scan'),
    ('{"ts":1714557600.123456,"uid":"C1","id.orig_h":"10.0.0.1","id.resp_p":53,"proto":"udp"}', 'json', '2024-05-01T10:00:00.123456Z', None, None, '{"ts":1714557600.123456,"uid":"C1","id.orig_h":"10.0.0.1","id.resp_p":53,"proto":"udp"}'),
    ('2024-05-01 10:00:00 status installed libc6:amd64 2.36-9+deb12u4', 'general', '2024-05-01T10:00:00', None, None, 'status installed libc6:amd64 2.36-9+deb12u4'),
    ('[2024-05-01T10:00:00+0200] [ALPM] upgraded linux (6.8.7.arch1-1 -> 6.8.8.arch1-1)', 'pacman', '2024-05-01T10:00:00+02:00', None, 'ALPM', 'upgraded linux (6.8.7.arch1-1 -> 6.8.8.arch1-1)'),
    ('[    12.345] (II) LoadModule: "glx"', 'xorg', None, 'INFO', None, 'LoadModule: "glx"'),
    ('[    12.345] (EE) Failed to load module "fbdev"', 'xorg', None, 'ERROR', None, 'Failed to load module "fbdev"'),
    ('2024-05-01 10:00:00.123456+0200 0x1a2b     Default     0x0                  123    0    kernel: (AppleACPIPlatform) wake', 'unified-log', '2024-05-01T10:00:00.123456+02:00', 'INFO', 'kernel', '(AppleACPIPlatform) wake'),
    ('2024-05-01 10:00:00.123456+0200 0x1a2b     Error       0x0                  123    0    locationd: [com.apple.locationd:Core] failed', 'unified-log', '2024-05-01T10:00:00.123456+02:00', 'ERROR', 'locationd', '[com.apple.locationd:Core] failed'),
    ('Wed May  1 10:00:00 2024 [pid 2] CONNECT: Client "1.2.3.4"', 'general', '2024-05-01T10:00:00', None, None, '[pid 2] CONNECT: Client "1.2.3.4"'),
    ('2024-05-01T10:00:00Z UpdateTip: new best=0000abc height=840000', 'general', '2024-05-01T10:00:00Z', None, 'UpdateTip', 'new best=0000abc height=840000'),
    ('05-01 10:00:00.123 D/AndroidRuntime( 1234): Shutting down VM', 'logcat', '2026-05-01T10:00:00.123', 'DEBUG', 'AndroidRuntime', 'Shutting down VM'),
    ('- 1117838570 2005.06.03 R02-M1-N0-C:J12-U11 2005-06-03-15.42.50.363779 R02-M1-N0-C:J12-U11 RAS KERNEL INFO instruction cache parity error corrected', 'general', '2005-06-03T15:42:50.363779', 'INFO', 'KERNEL', 'instruction cache parity error corrected'),
    ('APPREAD 1117869872 2005.06.04 R23-M1-N8-I:J18-U11 2005-06-04-00.24.32.398284 R23-M1-N8-I:J18-U11 RAS APP FATAL ciod: failed to read message prefix on control stream', 'general', '2005-06-04T00:24:32.398284', 'FATAL', 'APP', 'ciod: failed to read message prefix on control stream'),
    ('134681 node-246 unix.hw state_change.unavailable 1077804742 1 Component State Change: Component \\042alt0\\042 is in the unavailable state (HWID=3180)', 'general', '2004-02-26T14:12:22Z', None, None, 'Component State Change: Component \\042alt0\\042 is in the unavailable state (HWID=3180)'),
    ('[10.30 16:49:06] chrome.exe - proxy.cse.cuhk.edu.hk:5070 close, 0 bytes sent, 0 bytes received, lifetime 00:01', 'general', '2026-10-30T16:49:06', None, 'chrome.exe', 'proxy.cse.cuhk.edu.hk:5070 close, 0 bytes sent, 0 bytes received, lifetime 00:01'),
)  # fmt: skip
