"""Hand-made lines in the wrappers of Docker and CRI, with what they say."""

from __future__ import annotations

from tests.logs.lines import Expected

WRAPPED_LINES: tuple[Expected, ...] = (
    ('2024-05-01T10:00:00.123456789Z stdout F plain text', 'cri', '2024-05-01T10:00:00.123456789Z', None, None, 'plain text'),
    ('2024-05-01T10:00:00.123456789+02:00 stderr F ERROR:root:python in a pod', 'cri+python', '2024-05-01T10:00:00.123456789+02:00', 'ERROR', 'root', 'python in a pod'),
    ('2024-05-01T10:00:00.123456789Z stdout F {"level":"warn","msg":"json in a pod"}', 'cri+json', '2024-05-01T10:00:00.123456789Z', 'WARN', None, 'json in a pod'),
    ('2024-05-01T10:00:00.123456789Z stderr F I0501 10:00:00.123456       1 a.go:1] klog in a pod', 'cri+klog', '2026-05-01T10:00:00.123456', 'INFO', None, 'klog in a pod'),
    ('2024-05-01T10:00:00.123456789Z stdout F level=info msg="logfmt in a pod"', 'cri+logfmt', '2024-05-01T10:00:00.123456789Z', 'INFO', None, 'logfmt in a pod'),
    ('2024-05-01T10:00:00.123456789Z stdout F 1.2.3.4 - - [01/May/2024:10:00:00 +0000] "GET / HTTP/1.1" 500 5 "-" "a"', 'cri+access', '2024-05-01T10:00:00+00:00', 'ERROR', None, 'GET / HTTP/1.1'),
    ('{"log":"plain text\\n","stream":"stdout","time":"2024-05-01T10:00:00.123456789Z"}', 'docker', '2024-05-01T10:00:00.123456789Z', None, None, 'plain text'),
    ('{"log":"2024-05-01 10:00:00,123 - app - ERROR - python in docker\\n","stream":"stderr","time":"2024-05-01T10:00:00.123456789Z"}', 'docker+python', '2024-05-01T10:00:00.123', 'ERROR', 'app', 'python in docker'),
    ('{"log":"{\\"level\\":50,\\"time\\":1714557600123,\\"msg\\":\\"pino in docker\\"}\\n","stream":"stdout","time":"2024-05-01T10:00:01Z"}', 'docker+json', '2024-05-01T10:00:00.123Z', 'ERROR', None, 'pino in docker'),
    ('{"log":"[GIN] 2024/05/01 - 10:00:00 | 200 |  1ms | 1.2.3.4 | GET \\"/\\"\\n","stream":"stdout","time":"2024-05-01T10:00:00Z","attrs":{"tag":"x"}}', 'docker+access', '2024-05-01T10:00:00', 'INFO', None, 'GET "/"'),
    ('{"log":"level=warn ts=2024-05-01T10:00:00Z msg=m\\n","stream":"stderr","time":"2024-05-01T10:00:00.1Z"}', 'docker+logfmt', '2024-05-01T10:00:00Z', 'WARN', None, 'm'),
)  # fmt: skip
