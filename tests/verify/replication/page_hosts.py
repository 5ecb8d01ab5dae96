"""Hosts on which a page of the documentation is followed word for word.

Each is a network namespace with a name, and a mount namespace with an /etc, /opt, /usr/local and /var of its
own.  There is neither systemd nor ssh in it: stand-ins do what a page asks of them, and the `ExecStart` of a
unit is run as it is written, as its user.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import Command, Written, steps
from tools.nemesis.hosts import Host, Hosts

PATIENCE_S = 300
READ_AGAIN_S = 0.5
PROJECT = Path(__file__).resolve().parents[3]
COUNT = 4
OWN = ("/etc", "/opt", "/usr/local", "/var")
EVERY = "workerN"
EVERY_HOST = ("worker1", "worker2", "worker3")
# Commands that change nothing, and can be repeated until the page is right.
READS = re.compile(r"--?describe|describe |explain |--verify|storage info")
# The interpreter may be in a folder that only root can enter.
RUN_AS = """\
setpriv --reuid="$user" --regid="$user" --init-groups --inh-caps=+dac_read_search \
--ambient-caps=+dac_read_search env HOME=/var/lib/barnabas"""
STAND_INS = {
    "sudo": f"""\
if [ "$1" = -u ]; then user=$2; shift 2; exec {RUN_AS} "$@"; fi
exec "$@"
""",
    "ssh": """\
host=$1; shift
exec "$HOSTS/$host/enter" "$*"
""",
    "scp": """\
for last; do :; done
host=${last%%:*}
while [ $# -gt 1 ]; do
  path=${last#*:}
  "$HOSTS/$host/enter" "cat > ${path:-$(basename "$1")}" < "$1" || exit 1
  shift
done
""",
    "systemctl": f"""\
verb=$1; shift
[ "$verb" = daemon-reload ] && exit 0
[ "$1" = --now ] && shift
unit=/etc/systemd/system/$1.service
pid=$HOST_FOLDER/$1.pid
stop() {{
  kill -TERM "$(cat "$pid")" || exit 1
  while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.05; done
  rm "$pid"
}}
start() {{
  user=$(sed -n 's/^User=//p' "$unit")
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  setsid {RUN_AS} $command >> "$HOST_FOLDER/log" 2>&1 < /dev/null &
  echo $! > "$pid"
}}
case $verb in
  enable|start) start ;;
  disable|stop) stop ;;
  restart) stop; start ;;
  *) echo "there is no $verb" >&2; exit 1 ;;
esac
""",
}


class PageHost:
    """One host, with a shell."""

    def __init__(self, host: Host, folder: Path, tools: Path) -> None:
        self.name = host.name
        self.folder = folder / self.name
        home = self.folder / "home"
        home.mkdir(parents=True)
        # It starts the namespaces, and keeps them.
        self._holder = subprocess.Popen(
            [*host.prefix, "/bin/sh", "-c", _mounts(host.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n", f"{self.name}: its file systems are not there"
        self._enter = self.folder / "enter"
        self._enter.write_text(
            "#!/bin/sh\n"
            f"export PATH={tools}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin PYTHONWARNINGS=ignore\n"
            f"export HOSTS={folder} HOST_FOLDER={self.folder} HOME={home} LC_ALL=C.UTF-8\n"
            f'exec nsenter -t {self._holder.pid} -m -n --wd={home} sh -c "$1"\n',
            "utf-8",
        )
        self._enter.chmod(0o755)

    def type(self, line: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Types a line; standard output and error come as they would on a terminal."""
        return subprocess.run(
            [str(self._enter), line],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def write(self, path: str, text: str) -> None:
        done = self.type(f"cat > {path}", text)
        assert done.returncode == 0, done.stdout

    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text("utf-8").splitlines() if log.exists() else []

    def leave(self) -> None:
        for pid in self.folder.glob("*.pid"):
            self.type(f"kill -9 {pid.read_text('utf-8')}")
        self._holder.communicate()


def _mounts(root: Path) -> str:
    """The script of a holder; `root` is a file system, on which overlays can be."""
    lines = ["set -e", f"cp /etc/hosts {root}/hosts"]
    for number, path in enumerate(OWN):
        upper, work = root / f"upper{number}", root / f"work{number}"
        lines.append(f"mkdir {upper} {work}")
        lines.append(f"mount -t overlay overlay -o lowerdir={path},upperdir={upper},workdir={work} {path}")
    return "\n".join(
        [
            *lines,
            f"cp {root}/hosts /etc/hosts",
            f"mkdir /opt/barnabas && mount --bind {PROJECT / '.venv'} /opt/barnabas",
            "echo ready",
            "exec cat",
        ]
    )


class PageReader:
    """Follows a page about several hosts."""

    def __init__(self, hosts: dict[str, PageHost]) -> None:
        self.hosts = hosts

    def follow(self, page: str) -> None:
        for step in steps(page):
            if isinstance(step, Written):
                name, _, path = step.name.partition(":")
                for host in self._named(name):
                    host.write(path, step.text)
            elif isinstance(step, Command):
                for host in self._named(step.host):
                    self._type(host, step)

    def _named(self, name: str) -> list[PageHost]:
        return [self.hosts[each] for each in (EVERY_HOST if name == EVERY else (name,))]

    @staticmethod
    def _type(host: PageHost, command: Command) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = host.type(command.line)
            is_right = done.returncode == 0 and command.prints(done.stdout.rstrip().splitlines())
            if is_right:
                return
            if not READS.search(command.line) or time.monotonic() > deadline:
                break
            # What a page describes may take a moment, such as replicas that come back.
            time.sleep(READ_AGAIN_S)
        said = "\n".join(command.printed)
        raise AssertionError(
            f"{host.name}$ {command.line}\n{done.stdout}(exit code {done.returncode}), but the page says\n{said}"
        )


@contextmanager
def page_reader(folder: Path) -> Iterator[PageReader]:
    tools = folder / "stand-ins"
    tools.mkdir(parents=True)
    for name, text in STAND_INS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}", "utf-8")
        (tools / name).chmod(0o755)
    with Hosts(folder / "roots", COUNT, "worker") as made:
        hosts: dict[str, PageHost] = {}
        try:
            for host in made.hosts.values():
                hosts[host.name] = PageHost(host, folder / "hosts", tools)
            yield PageReader(hosts)
        except BaseException:
            for name, each in hosts.items():
                print(f"--- {name}", *each.log()[-40:], sep="\n")
            raise
        finally:
            for each in hosts.values():
                each.leave()
