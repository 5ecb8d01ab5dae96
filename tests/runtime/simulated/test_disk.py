"""The simulated disk: what a power loss may lose and what not, faults on demand, snapshots and forks."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated import disk_faults
from barnabas.runtime.simulated.disk import START_WALL_MS, SimulatedDisk, SimulatedFile
from barnabas.runtime.simulated.disk_faults import Kind, Operation, PowerLost
from barnabas.runtime.simulated.file import PAGE_BYTES, SECTOR_BYTES

SEEDS = range(200)


def dump(disk: SimulatedDisk, path: str = "") -> dict[str, bytes | None]:
    """Every name, and the content of files."""
    entries: dict[str, bytes | None] = {}
    for name in disk.names(path or "/"):
        below = f"{path}/{name}"
        if disk.is_folder(below):
            entries[below] = None
            entries.update(dump(disk, below))
        else:
            entries[below] = disk.read_bytes(below)
    return entries


def lasting_disk(seed: int = 1) -> SimulatedDisk:
    """With a durable folder /d."""
    disk = SimulatedDisk(SeededRandom(seed))
    disk.make_folder("/d")
    disk.sync_folder("/")
    return disk


def lasting_file(disk: SimulatedDisk, content: bytes, path: str = "/d/a") -> SimulatedFile:
    file = disk.open(path, create=True)
    file.append([content])
    file.sync()
    disk.sync_folder("/d")
    return file


def survivors(change: Callable[[SimulatedDisk, SimulatedFile], object], content: bytes) -> list[bytes]:
    """What remains of a synced file after an unsynced change, for many seeds."""
    contents = []
    for seed in SEEDS:
        disk = lasting_disk(seed)
        change(disk, lasting_file(disk, content))
        disk.power_loss()
        disk.restart()
        contents.append(disk.read_bytes("/d/a"))
    return contents


# What may be lost, and what may not.


def test_appended_unsynced_bytes_are_lost_kept_cut_zeroed_or_torn() -> None:
    old = b"o" * 1000
    new = b"n" * (3 * PAGE_BYTES)
    contents = survivors(lambda _disk, file: file.append([new]), old)
    assert all(content.startswith(old) for content in contents)
    tails = [content[1000:] for content in contents]
    assert b"" in tails
    assert new in tails
    assert any(tail and len(tail) < len(new) and set(tail) == {ord("n")} for tail in tails)
    assert any(set(tail) == {0, ord("n")} for tail in tails)
    # A torn page changes at a sector boundary and nowhere else.
    for content in contents:
        edges = [i for i in range(1001, len(content)) if content[i] != content[i - 1]]
        assert all(edge % SECTOR_BYTES == 0 for edge in edges)
    assert any(
        content[i] != content[i - 1] and i % PAGE_BYTES != 0
        for content in contents
        for i in range(PAGE_BYTES, len(content))
    )


def test_a_file_may_end_between_two_writes_or_within_one() -> None:
    def append_twice(_disk: SimulatedDisk, file: SimulatedFile) -> None:
        file.append([b"n" * 1000])
        file.append([b"n" * 1000])

    sizes = [len(content) for content in survivors(append_twice, b"o" * 100)]
    for size in (100, 1100, 2100):
        assert sizes.count(size) > 5
    assert len(set(sizes)) > 10


def test_overwritten_unsynced_bytes_are_old_or_new_by_sector() -> None:
    old = b"o" * (4 * PAGE_BYTES)
    contents = survivors(lambda _disk, file: file.write_at(100, b"n" * (2 * PAGE_BYTES)), old)
    kept = b"o" * 100 + b"n" * (2 * PAGE_BYTES)
    assert {len(content) for content in contents} == {len(old)}
    assert old in contents
    assert kept + old[len(kept) :] in contents
    assert len(set(contents)) > 10
    for content in contents:
        assert content[:100] == b"o" * 100
        assert content[len(kept) :] == old[len(kept) :]
        assert set(content) <= {ord("o"), ord("n")}


def test_an_unsynced_truncation_may_be_undone() -> None:
    old = bytes(range(1, 251)) * 40
    contents = survivors(lambda _disk, file: file.truncate(300), old)
    assert set(contents) == {old, old[:300]}


def test_bytes_after_a_truncation_never_mix_with_truncated_ones() -> None:
    old = b"o" * (3 * PAGE_BYTES)

    def cut_and_append(_disk: SimulatedDisk, file: SimulatedFile) -> None:
        file.truncate(PAGE_BYTES)
        file.append([b"n" * PAGE_BYTES])

    contents = survivors(cut_and_append, old)
    assert old in contents
    assert b"o" * PAGE_BYTES in contents
    assert b"o" * PAGE_BYTES + b"n" * PAGE_BYTES in contents
    for content in contents:
        assert content.startswith(b"o" * PAGE_BYTES)
        assert content == old or ord("o") not in content[PAGE_BYTES:]


def test_synced_data_survives_any_later_append() -> None:
    for seed in SEEDS:
        disk = lasting_disk(seed)
        file = lasting_file(disk, b"1" * 777)
        file.append([b"2" * 5000])
        file.sync()
        file.append([b"3" * 5000])
        disk.power_loss()
        disk.restart()
        assert disk.read_bytes("/d/a").startswith(b"1" * 777 + b"2" * 5000)


def test_unsynced_names_may_be_lost() -> None:
    seen = set()
    for seed in SEEDS:
        disk = lasting_disk(seed)
        for name in ("renamed", "removed", "replaced"):
            lasting_file(disk, name.encode(), f"/d/{name}")
        disk.open("/d/created", create=True)
        disk.rename("/d/renamed", "/d/new-name")
        disk.remove("/d/removed")
        disk.rename("/d/new-name", "/d/replaced")
        disk.power_loss()
        disk.restart()
        seen.add((*disk.names("/d"), disk.read_bytes("/d/replaced")))
    # Prefixes of the operations, in order, and nothing else.
    assert seen == {
        ("removed", "renamed", "replaced", b"replaced"),
        ("created", "removed", "renamed", "replaced", b"replaced"),
        ("created", "new-name", "removed", "replaced", b"replaced"),
        ("created", "new-name", "replaced", b"replaced"),
        ("created", "replaced", b"renamed"),
    }


def test_a_synced_name_needs_a_synced_path() -> None:
    seen = set()
    for seed in SEEDS:
        disk = lasting_disk(seed)
        disk.make_folder("/d/t/u")
        disk.open("/d/t/u/a", create=True).sync()
        disk.sync_folder("/d/t/u")
        disk.power_loss()
        disk.restart()
        seen.add(tuple(dump(disk)))
    assert seen == {("/d",), ("/d", "/d/t"), ("/d", "/d/t", "/d/t/u", "/d/t/u/a")}


def test_folders_are_synced_one_by_one() -> None:
    kept, lost = set(), set()
    for seed in SEEDS:
        disk = lasting_disk(seed)
        disk.make_folder("/d/x")
        disk.make_folder("/d/y")
        disk.sync_folder("/d")
        disk.open("/d/x/a", create=True)
        disk.open("/d/y/a", create=True)
        disk.sync_folder("/d/x")
        disk.power_loss()
        disk.restart()
        kept.add(disk.exists("/d/x/a"))
        lost.add(disk.exists("/d/y/a"))
    assert kept == {True}
    assert lost == {True, False}


def test_a_rename_between_folders_is_atomic_and_durable_when_either_folder_is_synced() -> None:
    seen = set()
    for synced in (None, "/d/x", "/d/y"):
        for seed in SEEDS:
            disk = lasting_disk(seed)
            disk.make_folder("/d/x")
            disk.make_folder("/d/y")
            disk.sync_folder("/d")
            disk.open("/d/x/a", create=True)
            disk.sync_folder("/d/x")
            disk.open("/d/y/before", create=True)
            disk.rename("/d/x/a", "/d/y/a")
            if synced is not None:
                disk.sync_folder(synced)
            disk.power_loss()
            disk.restart()
            seen.add((synced, disk.exists("/d/x/a"), disk.exists("/d/y/a"), disk.exists("/d/y/before")))
    assert seen == {
        (None, True, False, False),
        (None, True, False, True),
        (None, False, True, True),
        ("/d/x", False, True, True),
        ("/d/y", False, True, True),
    }


def test_a_restart_without_power_loss_keeps_everything() -> None:
    disk = lasting_disk()
    file = disk.open("/d/a", create=True)
    file.append([b"never synced"])
    lock = disk.lock("/d/.lock")
    disk.restart()
    assert disk.read_bytes("/d/a") == b"never synced"
    with pytest.raises(PowerLost, match="reopen the file"):
        file.read_at(0, 1)
    disk.lock("/d/.lock")
    # A lock from before the restart has nothing to release.
    lock.release()
    with pytest.raises(BlockingIOError):
        disk.lock("/d/.lock")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 5)),
        st.tuples(st.just("append"), st.integers(0, 9), st.integers(1, 9000)),
        st.tuples(st.just("write_at"), st.integers(0, 9), st.integers(0, 9000), st.integers(1, 9000)),
        st.tuples(st.just("truncate"), st.integers(0, 9), st.integers(0, 9000)),
        st.tuples(st.just("sync"), st.integers(0, 9)),
        st.tuples(st.just("rename"), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("sync_folder")),
    ),
    max_size=40,
)


class Model:
    """The possible states after a power loss, kept in the simplest way: every state since the last sync."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.handles: list[tuple[int, SimulatedFile]] = []
        self.contents: dict[int, list[bytes]] = {}
        self.names: dict[str, list[int | None]] = {}
        self.fill = 1

    def bind(self, name: str, tag: int | None) -> None:
        self.names.setdefault(name, [None]).append(tag)

    def fresh(self, count: int) -> bytes:
        self.fill = self.fill % 255 + 1
        return bytes([self.fill]) * count

    def step(self, step: tuple[object, ...]) -> None:
        match step:
            case "create", int(number):
                name = f"/d/{number}"
                if not self.disk.exists(name):
                    file = self.disk.open(name, create=True)
                    tag = len(self.contents)
                    file.append([tag.to_bytes(SECTOR_BYTES, "big")])
                    file.sync()
                    self.contents[tag] = [file.read_at(0, SECTOR_BYTES)]
                    self.handles.append((tag, file))
                    self.bind(name, tag)
            case "rename", int(old), int(new) if self.disk.exists(f"/d/{old}") and old != new:
                self.disk.rename(f"/d/{old}", f"/d/{new}")
                self.bind(f"/d/{new}", self.names[f"/d/{old}"][-1])
                self.bind(f"/d/{old}", None)
            case "remove", int(number) if self.disk.exists(f"/d/{number}"):
                self.disk.remove(f"/d/{number}")
                self.bind(f"/d/{number}", None)
            case ("sync_folder",):
                self.disk.sync_folder("/d")
                self.names = {name: tags[-1:] for name, tags in self.names.items()}
            case str(method), int(which), *numbers if self.handles and method not in ("rename", "remove"):
                self.change(method, *self.handles[which % len(self.handles)], *numbers)

    def change(self, method: str, tag: int, file: SimulatedFile, *numbers: object) -> None:
        match method, *numbers:
            case "append", int(count):
                file.append([self.fresh(count)])
            case "write_at", int(offset), int(count):
                file.write_at(SECTOR_BYTES + offset, self.fresh(count))
            case "truncate", int(size):
                file.truncate(SECTOR_BYTES + size)
            case ("sync",):
                file.sync()
                self.contents[tag].clear()
        self.contents[tag].append(file.read_at(0, file.size))

    def check(self) -> None:
        """After power loss and restart."""
        left = set(self.disk.names("/d"))
        for name, tags in self.names.items():
            tag: int | None = None
            if name[3:] in left:
                left.discard(name[3:])
                content = self.disk.read_bytes(name)
                tag = int.from_bytes(content[:SECTOR_BYTES], "big")
                check_content(content, self.contents[tag])
            assert tag in tags
        assert not left


def check_content(content: bytes, states: list[bytes]) -> None:
    least = min(map(len, states))
    assert least <= len(content) <= max(map(len, states))
    for position, value in enumerate(content):
        allowed = {state[position] for state in states if position < len(state)}
        if position >= least:
            allowed.add(0)
        assert value in allowed, position


@settings(max_examples=60)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_after_power_loss_all_synced_data_is_there_and_nothing_that_was_never_written(  # M-E4
    steps: list[tuple[object, ...]], seed: int
) -> None:
    disk = lasting_disk(seed)
    model = Model(disk)
    for step in steps:
        model.step(step)
    disk.power_loss()
    disk.restart()
    model.check()


# Every moment.


def life(disk: SimulatedDisk) -> None:
    disk.make_folder("/d/t-0")
    disk.sync_folder("/d")
    log = disk.open("/d/t-0/0.log", create=True)
    disk.sync_folder("/d/t-0")
    for number in range(4):
        log.append([bytes([number + 1]) * 3000])
        if number % 2:
            log.sync()
    log.truncate(7000)
    disk.write_atomically("/d/checkpoint", b"1")
    disk.write_atomically("/d/checkpoint", b"2")
    disk.rename("/d/t-0", "/d/t-0-delete")
    disk.remove_tree("/d/t-0-delete")


def crash(at: int, *, with_effect: bool, seed: int = 7) -> tuple[SimulatedDisk, list[Operation]]:
    disk = SimulatedDisk(SeededRandom(seed))
    disk.make_folder("/d")
    disk.sync_folder("/")
    disk.crash_after(at, with_effect=with_effect)
    with pytest.raises(PowerLost, match=f"operation {at + 2}"):
        life(disk)
    journal = list(disk.journal)
    with pytest.raises(PowerLost, match="power is off"):
        disk.names("/d")
    disk.restart()
    return disk, journal


def test_power_is_lost_in_every_operation_with_and_without_its_effect() -> None:
    whole = lasting_disk()
    life(whole)
    total = whole.operations - 2
    assert total > 20
    for at in range(1, total + 1):
        for with_effect in (False, True):
            disk, journal = crash(at, with_effect=with_effect)
            assert journal == list(whole.journal)[: at + 2]
            assert disk.exists("/d")


def test_a_fork_at_every_operation_equals_a_run_for_every_operation() -> None:
    disk = lasting_disk()
    forks: list[dict[str, bytes | None]] = []

    def fork(_operation: Operation) -> None:
        twin = disk.fork(SeededRandom(7))
        twin.power_loss()
        twin.restart()
        forks.append(dump(twin))

    disk.on_operation = fork
    life(disk)
    assert len(forks) == disk.operations - 2
    assert dump(disk) == {"/d": None, "/d/checkpoint": b"2"}
    for at, names in enumerate(forks, 1):
        assert names == dump(crash(at, with_effect=True)[0])


@pytest.mark.parametrize("careful", [True, False])
def test_a_careless_write_is_detected(careful: bool) -> None:
    """An atomic write leaves the old or the new content at every moment; without its syncs some seed does
    not."""
    contents = set()
    for seed in range(40):
        for at in range(1, 6):
            disk = lasting_disk(seed)
            lasting_file(disk, b"old", "/d/checkpoint")
            disk.crash_after(at)
            try:
                disk.write_atomically("/d/checkpoint", b"new", sync=careful)
                disk.power_loss()
            except PowerLost:
                pass
            disk.restart()
            contents.add(disk.read_bytes("/d/checkpoint"))
    assert {b"old", b"new"} <= contents
    assert (contents == {b"old", b"new"}) == careful


def test_the_same_seed_leaves_the_same_bytes() -> None:
    def left(seed: int) -> list[tuple[str, bytes | None]]:
        return list(dump(crash(9, with_effect=True, seed=seed)[0]).items())

    assert [left(seed) for seed in range(30)] == [left(seed) for seed in range(30)]
    assert len({tuple(left(seed)) for seed in range(30)}) > 3


def test_snapshots_are_restored_and_can_be_used_again() -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"synced")
    file.append([b" not synced"])
    disk.open("/d/b", create=True)
    image = disk.snapshot()
    file.write_at(0, b"SYNCED")
    disk.remove("/d/b")
    assert dump(disk)["/d/a"] == b"SYNCED not synced"
    contents = set()
    for _ in range(40):
        disk.restore(image)
        assert dump(disk) == {"/d": None, "/d/a": b"synced not synced", "/d/b": b""}
        with pytest.raises(PowerLost):
            file.append([b"x"])
        disk.power_loss()
        disk.restart()
        contents.add((disk.read_bytes("/d/a"), disk.exists("/d/b")))
    assert {content for content, _ in contents} >= {b"synced", b"synced not synced"}
    assert {there for _, there in contents} == {True, False}


def test_a_removed_file_reappears_whole_in_a_fork_whose_removal_was_lost() -> None:
    disk = lasting_disk()
    lasting_file(disk, b"synced")
    disk.remove("/d/a")
    seen = set()
    for seed in range(20):
        twin = disk.fork(SeededRandom(seed))
        twin.power_loss()
        twin.restart()
        seen.add(twin.read_bytes("/d/a") if twin.exists("/d/a") else None)
    assert seen == {None, b"synced"}


# Faults on demand.


def refused(code: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == code


def test_the_nth_operation_fails_once() -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"")
    disk.fail(3, errno.EIO)
    file.append([b"1"])
    file.append([b"2"])
    refused(errno.EIO, lambda: file.append([b"3"]))
    file.append([b"4"])
    assert file.read_at(0, 9) == b"124"


def test_faults_choose_kinds_paths_and_times() -> None:
    disk = lasting_disk()
    log = lasting_file(disk, b"log", "/d/0.log")
    index = lasting_file(disk, b"index", "/d/0.index")
    disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE}, path="*.index", times=2)
    disk.fail(2, errno.EACCES, kinds={Kind.RENAME, Kind.REMOVE})
    log.append([b"fine"])
    log.sync()
    refused(errno.ENOSPC, lambda: index.append([b"x"]))
    refused(errno.ENOSPC, lambda: index.write_at(0, b"x"))
    index.append([b"!"])
    disk.rename("/d/0.log", "/d/1.log")
    refused(errno.EACCES, lambda: disk.remove("/d/1.log"))
    disk.remove("/d/1.log")
    assert disk.names("/d") == ["0.index"]
    assert index.read_at(0, 9) == b"index!"


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (Kind.CREATE, lambda disk, file: disk.open("/d/new", create=True)),
        (Kind.WRITE, lambda disk, file: file.append([b"x"])),
        (Kind.TRUNCATE, lambda disk, file: file.truncate(0)),
        (Kind.SYNC, lambda disk, file: file.sync()),
        (Kind.RENAME, lambda disk, file: disk.rename("/d/a", "/d/b")),
        (Kind.REMOVE, lambda disk, file: disk.remove("/d/a")),
        (Kind.MAKE_FOLDER, lambda disk, file: disk.make_folder("/d/new")),
        (Kind.SYNC_FOLDER, lambda disk, file: disk.sync_folder("/d")),
        (Kind.SET_MODIFIED, lambda disk, file: disk.set_modified_ms("/d/a", 1)),
        (Kind.OPEN, lambda disk, file: disk.open("/d/a")),
        (Kind.READ, lambda disk, file: file.slice(0, 1)),
        (Kind.LIST, lambda disk, file: disk.names("/d")),
        (Kind.STAT, lambda disk, file: disk.size("/d/a")),
        (Kind.LOCK, lambda disk, file: disk.lock("/d/a")),
    ],
)
def test_every_kind_can_fail_and_then_has_no_effect(
    kind: Kind, call: Callable[[SimulatedDisk, SimulatedFile], object]
) -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"content")
    before = dump(disk)
    modified_ms = disk.modified_ms("/d/a")
    disk.fail(1, errno.EIO, kinds={kind})
    refused(errno.EIO, lambda: call(disk, file))
    assert dump(disk) == before
    assert disk.modified_ms("/d/a") == modified_ms
    call(disk, file)


def test_a_short_write_leaves_a_part() -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"old")
    disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE}, kept_bytes=2)
    refused(errno.ENOSPC, lambda: file.append([b"n", b"ew"]))
    assert file.read_at(0, 9) == b"oldne"
    file.truncate(3)
    assert file.append([b"!"]) == 3


def test_data_dropped_by_a_failed_sync_is_not_written_by_a_later_one() -> None:
    for seed in range(30):
        disk = lasting_disk(seed)
        file = lasting_file(disk, b"old" * 100)
        file.append([b"lost" * 100])
        disk.fail(1, errno.EIO, kinds={Kind.SYNC})
        refused(errno.EIO, file.sync)
        # As on Linux: programs still see the bytes, and the next sync finds nothing to do.
        assert file.read_at(300, 4) == b"lost"
        file.sync()
        disk.power_loss()
        disk.restart()
        assert disk.read_bytes("/d/a").rstrip(b"\0") == b"old" * 100


def test_data_rewritten_after_a_failed_sync_is_durable() -> None:
    for seed in range(30):
        disk = lasting_disk(seed)
        file = lasting_file(disk, b"old" * 100)
        file.append([b"lost" * 5000])
        disk.fail(1, errno.EIO, kinds={Kind.SYNC})
        refused(errno.EIO, file.sync)
        file.truncate(300)
        file.append([b"again"])
        file.sync()
        disk.power_loss()
        disk.restart()
        assert disk.read_bytes("/d/a") == b"old" * 100 + b"again"


def test_a_full_disk_writes_what_fits() -> None:
    disk = SimulatedDisk(SeededRandom(1), capacity_bytes=10)
    file = disk.open("/a", create=True)
    file.append([b"01234567"])
    assert disk.free_bytes("/") == 2
    refused(errno.ENOSPC, lambda: file.append([b"89abc"]))
    assert file.read_at(0, 99) == b"0123456789"
    assert disk.free_bytes("/") == 0
    file.write_at(0, b"over")
    refused(errno.ENOSPC, lambda: disk.open("/b", create=True).write_at(5, b"x"))
    assert disk.size("/b") == 0
    file.truncate(5)
    disk.capacity_bytes = 12
    assert disk.free_bytes("/") == 7
    assert file.append([b"5678"]) == 5
    disk.remove("/a")
    assert disk.free_bytes("/") == 12


def test_a_read_only_disk_can_be_read() -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"content")
    disk.read_only = True
    for call in (
        lambda: file.append([b"x"]),
        lambda: disk.open("/d/a"),
        lambda: disk.open("/d/new", create=True),
        lambda: disk.remove("/d/a"),
        lambda: disk.make_folder("/d/t"),
        lambda: disk.rename("/d/a", "/d/b"),
        lambda: disk.set_modified_ms("/d/a", 1),
    ):
        refused(errno.EROFS, call)
    assert disk.read_bytes("/d/a") == b"content"
    disk.clear_faults()
    file.append([b"x"])


def test_a_slow_disk_reports_its_delays() -> None:
    disk = lasting_disk()
    delays: list[int] = []
    disk.on_delay = delays.append
    disk.slow(30, kinds={Kind.SYNC}, path="*.log")
    disk.slow(1)
    file = disk.open("/d/0.log", create=True)
    assert delays == [1, 1]
    file.sync()
    assert delays == [1, 1, 30, 1]
    disk.open("/d/0.index", create=True).sync()
    assert 30 not in delays[4:]
    disk.clear_faults()
    delays.clear()
    file.sync()
    assert delays == []


def test_a_crash_planned_for_a_failing_operation_happens_in_the_next() -> None:
    disk = lasting_disk()
    file = lasting_file(disk, b"")
    disk.crash_after(1, with_effect=True)
    disk.fail(1, errno.EIO)
    refused(errno.EIO, lambda: file.append([b"x"]))
    with pytest.raises(PowerLost):
        file.append([b"y"])


def test_power_loss_is_not_caught_by_error_handlers() -> None:
    disk = lasting_disk()
    disk.crash_after(1)
    with pytest.raises(PowerLost):
        try:
            disk.open("/d/a", create=True)
        except Exception:
            pytest.fail("caught as an error")
    with pytest.raises(PowerLost):
        disk.power_loss()


def test_the_journal_lists_operations_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_faults, "JOURNAL_MAX", 5)
    disk = lasting_disk()
    file = lasting_file(disk, b"12345")
    disk.read_bytes("/d/a")
    disk.remove_tree("/d")
    file.close()
    assert [tuple(line) for line in disk.journal] == [
        (4, "write", "/d/a", 5),
        (5, "sync", "/d/a", 5),
        (6, "sync_folder", "/d", 0),
        (7, "remove", "/d/a", 0),
        (8, "remove", "/d", 0),
    ]
    assert disk.operations == 8


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_faults, "FAULTS_MAX", 2)
    disk = lasting_disk()
    for _ in range(2):
        disk.fail(1, errno.EIO, kinds={Kind.REMOVE})
        disk.slow(1)
    with pytest.raises(ValueError, match="clear_faults"):
        disk.fail(1, errno.EIO)
    with pytest.raises(ValueError, match="clear_faults"):
        disk.slow(1)


def test_times_come_from_the_world_or_count_operations() -> None:
    disk = SimulatedDisk(SeededRandom(1), wall_ms=lambda: 5)
    disk.open("/a", create=True)
    assert disk.modified_ms("/a") == disk.fork(SeededRandom(1)).modified_ms("/a") == 5
    disk = SimulatedDisk(SeededRandom(1))
    file = disk.open("/a", create=True)
    file.append([b"x"])
    assert disk.modified_ms("/a") == START_WALL_MS + 2
