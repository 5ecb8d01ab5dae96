"""The behaviour that every kind of disk shares."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.runtime.disk.descriptor_io import NO_FEATURES
from barnabas.runtime.disk.disk import BytesSlice, Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import SMALL_FILE_BYTES, MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk

DISKS: dict[str, Callable[[], Disk]] = {
    "folder": FolderDisk,
    "folder-one-descriptor": lambda: FolderDisk(open_files_max=1),
    "folder-plain": lambda: FolderDisk(features=NO_FEATURES),
    "memory": MemoryDisk,
    "memory-plain": lambda: MemoryDisk(features=NO_FEATURES),
    "simulated": lambda: SimulatedDisk(SeededRandom(1)),
}


def make(kind: str, folder: Path) -> tuple[Disk, str]:
    """A disk and a folder on it to work in."""
    disk = DISKS[kind]()
    root = str(folder / "root")
    disk.make_folder(root)
    return disk, root


BIG = SMALL_FILE_BYTES * 3
"""More than a memory disk keeps as plain bytes."""


@pytest.fixture(params=list(DISKS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    return make(request.param, tmp_path)


def pattern(count: int, seed: int = 0) -> bytes:
    return bytes((index * 7 + index // 256 + seed) % 256 for index in range(count))


def test_a_folder_is_synced_with_all_below_it(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_folder(f"{root}/deep/er")
    for path in ("a", "deep/b", "deep/er/c"):
        disk.open(f"{root}/{path}", create=True).append([b"text"])
    if isinstance(disk, SimulatedDisk):
        disk.sync_folder(root.rpartition("/")[0])
    disk.sync_below(root)
    if isinstance(disk, SimulatedDisk):
        disk.power_loss()
        disk.restart()
    assert [disk.read_bytes(f"{root}/{path}") for path in ("a", "deep/b", "deep/er/c")] == [b"text"] * 3
    with pytest.raises(FileNotFoundError):
        disk.sync_below(f"{root}/none")


def test_append_returns_the_position_and_keeps_every_part(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    assert file.append([b"one", bytearray(b"two"), memoryview(b"three")]) == 0
    assert file.append([]) == 11
    assert file.append([b""]) == 11
    assert file.append([b"four"]) == 11
    assert file.size == 15 == disk.size(f"{root}/a")
    assert file.read_at(0, 100) == b"onetwothreefour"
    file.close()
    assert disk.read_bytes(f"{root}/a") == b"onetwothreefour"


def test_append_of_more_parts_than_one_call_accepts(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    parts = [pattern(index % 91, index) for index in range(3000)]
    assert file.append(parts) == 0
    assert file.read_at(0, file.size) == b"".join(parts)
    file.close()


def test_reads_end_at_the_end_of_the_file(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    assert file.read_at(4, 3) == b"456"
    assert file.read_at(8, 1 << 60) == b"89"
    assert file.read_at(10, 5) == b""
    assert file.read_at(99, 5) == b""
    buffer = bytearray(6)
    assert file.read_into(2, buffer) == 6
    assert buffer == b"234567"
    assert file.read_into(7, memoryview(buffer)[1:]) == 3
    assert buffer == b"278967"
    assert file.read_into(50, buffer) == 0
    file.close()


def test_write_at_overwrites_and_leaves_a_hole_of_zeroes(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    file.write_at(3, b"abc")
    file.write_at(14, b"end")
    file.write_at(40, b"")
    assert file.size == 17
    assert file.read_at(0, 99) == b"012abc6789\0\0\0\0end"
    file.close()


def test_truncate_shortens_and_extends(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size == 4
    file.truncate(6)
    assert file.read_at(0, 99) == b"0123\0\0"
    assert file.append([b"x"]) == 6
    file.truncate(0)
    assert file.append([b"y"]) == 0
    file.truncate(BIG)
    assert file.size == BIG
    assert file.read_at(0, 3) == b"y\0\0"
    file.sync()
    file.close()


def test_handles_of_one_file_see_each_other(place: tuple[Disk, str]) -> None:
    disk, root = place
    reader_before = None
    writer = disk.open(f"{root}/a", create=True)
    reader_before = disk.open(f"{root}/a", writable=False)
    second = disk.open(f"{root}/a")
    writer.append([b"one"])
    assert second.append([b"two"]) == 3
    assert reader_before.size == 6
    assert reader_before.read_at(0, 9) == b"onetwo"
    writer.close()
    second.close()
    assert reader_before.read_at(3, 9) == b"two"
    # A reader that was opened first must not prevent writing.
    late = disk.open(f"{root}/a")
    assert late.append([b"!"]) == 6
    assert reader_before.read_at(0, 9) == b"onetwo!"
    late.close()
    reader_before.close()


def refused(code: int, call: object, *arguments: object, **options: Any) -> None:
    assert callable(call)
    with pytest.raises(OSError) as caught:
        call(*arguments, **options)
    assert caught.value.errno == code, caught.value


def test_errors_of_handles(place: tuple[Disk, str]) -> None:
    disk, root = place
    refused(errno.ENOENT, disk.open, f"{root}/none")
    refused(errno.ENOENT, disk.open, f"{root}/none/a", create=True)
    refused(errno.EISDIR, disk.open, root)
    refused(errno.EISDIR, disk.open, root, writable=False)
    file = disk.open(f"{root}/a", create=True)
    file.append([b"abc"])
    refused(errno.ENOTDIR, disk.open, f"{root}/a/b", create=True)
    for call in (file.read_at, file.slice):
        refused(errno.EINVAL, call, -1, 1)
        refused(errno.EINVAL, call, 0, -1)
    refused(errno.EINVAL, file.read_into, -1, bytearray(1))
    refused(errno.EINVAL, file.write_at, -1, b"x")
    refused(errno.EINVAL, file.truncate, -1)
    reader = disk.open(f"{root}/a", writable=False)
    refused(errno.EBADF, reader.append, [b"x"])
    refused(errno.EBADF, reader.write_at, 0, b"x")
    refused(errno.EBADF, reader.truncate, 0)
    assert reader.read_at(0, 9) == b"abc"
    for handle in (file, reader):
        handle.close()
        handle.close()
        refused(errno.EBADF, handle.read_at, 0, 1)
        refused(errno.EBADF, handle.append, [b"x"])
        refused(errno.EBADF, handle.slice, 0, 1)
        refused(errno.EBADF, handle.sync)
        refused(errno.EBADF, lambda handle=handle: handle.size)


def test_errors_of_names(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.write_atomically(f"{root}/file", b"x")
    disk.make_folder(f"{root}/full/below")
    disk.make_folder(f"{root}/empty")
    missing = f"{root}/none"
    for call in (
        disk.names,
        disk.size,
        disk.modified_ms,
        disk.sync_folder,
        disk.free_bytes,
        disk.total_bytes,
        disk.read_bytes,
    ):
        refused(errno.ENOENT, call, missing)
    refused(errno.ENOENT, disk.set_modified_ms, missing, 1)
    refused(errno.ENOENT, disk.rename, missing, f"{root}/b")
    refused(errno.ENOENT, disk.rename, f"{root}/file", f"{root}/none/b")
    refused(errno.ENOTDIR, disk.names, f"{root}/file")
    refused(errno.ENOTDIR, disk.sync_folder, f"{root}/file")
    refused(errno.EEXIST, disk.make_folder, f"{root}/file")
    refused(errno.ENOTDIR, disk.make_folder, f"{root}/file/below")
    refused(errno.EISDIR, disk.rename, f"{root}/file", f"{root}/empty")
    refused(errno.ENOTDIR, disk.rename, f"{root}/empty", f"{root}/file")
    refused(errno.ENOTEMPTY, disk.rename, f"{root}/empty", f"{root}/full")
    refused(errno.EINVAL, disk.rename, f"{root}/full", f"{root}/full/below/deeper")
    refused(errno.EISDIR, disk.remove, f"{root}/empty")
    refused(errno.ENOTDIR, disk.remove_tree, f"{root}/file")
    refused(errno.ENOENT, disk.lock, f"{root}/none/.lock")
    assert disk.names(root) == ["empty", "file", "full"]


def test_names_and_kinds(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_folder(f"{root}/topic-0/deep")
    disk.make_folder(f"{root}/topic-0")
    for name in ("b", "a", "c"):
        disk.open(f"{root}/{name}", create=True).close()
    assert disk.names(root) == ["a", "b", "c", "topic-0"]
    assert disk.exists(f"{root}/a")
    assert not disk.is_folder(f"{root}/a")
    assert disk.is_folder(f"{root}/topic-0/deep")
    assert not disk.exists(f"{root}/a/b")
    assert not disk.is_folder(f"{root}/none")
    disk.sync_folder(root)
    disk.remove(f"{root}/a")
    disk.remove(f"{root}/a")
    disk.remove(f"{root}/none/a")
    disk.remove_tree(f"{root}/topic-0")
    disk.remove_tree(f"{root}/topic-0")
    assert disk.names(root) == ["b", "c"]
    assert 0 < disk.free_bytes(root) <= disk.total_bytes(root)


def test_paths_are_the_same_however_they_are_written(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}//x/../a".replace("/x/..", "/./"), create=True)
    assert file.path == f"{root}/a"
    file.append([b"1"])
    disk.rename(f"{root}/./a", f"{root}//b")
    assert file.path == f"{root}/b"
    assert disk.read_bytes(f"{root}/b") == b"1"
    file.close()


def test_times(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    disk.set_modified_ms(f"{root}/a", 1_234_567_890_123)
    assert disk.modified_ms(f"{root}/a") == 1_234_567_890_123
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.modified_ms(f"{root}/b") == 1_234_567_890_123
    file.append([b"x"])
    assert disk.modified_ms(f"{root}/b") > 1_500_000_000_000
    file.close()


def test_open_files_follow_a_rename(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_folder(f"{root}/topic-0/deep")
    top = disk.open(f"{root}/topic-0/a", create=True)
    deep = disk.open(f"{root}/topic-0/deep/b", create=True)
    disk.rename(f"{root}/topic-0/a", f"{root}/topic-0/a.deleted")
    disk.rename(f"{root}/topic-0", f"{root}/topic-0-delete")
    disk.rename(f"{root}/topic-0-delete", f"{root}/topic-0-delete")
    top.append([b"top"])
    deep.append([b"deep"])
    assert top.path == f"{root}/topic-0-delete/a.deleted"
    assert deep.path == f"{root}/topic-0-delete/deep/b"
    assert disk.read_bytes(top.path) == b"top"
    assert disk.read_bytes(deep.path) == b"deep"
    top.close()
    deep.close()


def test_rename_replaces_and_the_old_file_stays_readable_through_its_handles(place: tuple[Disk, str]) -> None:
    disk, root = place
    old = disk.open(f"{root}/a", create=True)
    old.append([b"old"])
    part = old.slice(1, 2)
    new = disk.open(f"{root}/b", create=True)
    new.append([b"new"])
    disk.rename(f"{root}/b", f"{root}/a")
    assert disk.names(root) == ["a"]
    assert disk.read_bytes(f"{root}/a") == b"new"
    old.append([b"er"])
    assert old.read_at(0, 9) == b"older"
    assert part.read() == b"ld"
    assert new.read_at(0, 9) == b"new"
    old.close()
    assert part.read() == b"ld"
    new.close()


@pytest.mark.parametrize("size", [100, BIG])
def test_removed_files_stay_readable_through_handles_and_slices(place: tuple[Disk, str], size: int) -> None:
    disk, root = place
    disk.make_folder(f"{root}/t")
    data = pattern(size)
    by_file = disk.open(f"{root}/a", create=True)
    by_folder = disk.open(f"{root}/t/b", create=True)
    by_file.append([data])
    by_folder.append([data])
    part = by_file.slice(10, size)
    disk.remove(f"{root}/a")
    disk.remove_tree(f"{root}/t")
    assert by_file.read_at(0, size) == by_folder.read_at(0, size) == data
    by_file.append([b"more"])
    # The name can be used by a new file, which is a different one.
    again = disk.open(f"{root}/a", create=True)
    assert again.size == 0
    again.append([b"again"])
    for handle in (by_file, by_folder, again):
        handle.close()
    assert part.read() == data[10:]
    assert disk.read_bytes(f"{root}/a") == b"again"


@pytest.mark.parametrize("size", [1000, BIG])
def test_slices_end_at_the_end_of_the_file(place: tuple[Disk, str], size: int) -> None:
    disk, root = place
    data = pattern(size)
    file = disk.open(f"{root}/a", create=True)
    file.append([data])
    part = file.slice(100, 500)
    assert part.length == 500
    assert part.read() == data[100:600]
    assert part.is_resident()
    assert file.slice(size - 7, 50).length == 7
    assert file.slice(size + 7, 50).length == 0
    assert file.slice(size + 7, 50).read() == b""
    sub = part.sub(400, 500)
    assert sub.length == 100
    assert sub.read() == data[500:600]
    assert part.sub(501, 5).length == 0
    refused(errno.EINVAL, part.sub, -1, 2)
    file.append([b"more"])
    assert part.length == 500
    file.close()


@pytest.mark.parametrize("size", [1000, 1_500_000])
def test_slices_are_sent_to_a_socket(place: tuple[Disk, str], size: int) -> None:  # M-E2
    disk, root = place
    data = pattern(size)
    file = disk.open(f"{root}/a", create=True)
    file.append([data])
    part = file.slice(5, size)
    file.close()
    disk.remove(f"{root}/a")
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.setblocking(False)
        got = bytearray()
        sent = 0
        blocked = False
        while sent < part.length:
            try:
                step = part.send_to(sender, sent)
                assert step > 0
                sent += step
            except BlockingIOError:
                blocked = True
                got += receiver.recv(1 << 20)
        assert part.send_to(sender, part.length) == 0
        while len(got) < sent:
            got += receiver.recv(1 << 20)
    assert got == data[5:]
    assert blocked == (size > 1_000_000)


class WrappingSink:
    """Like TLS: bytes must go through `send`, the descriptor must not be used."""

    def __init__(self) -> None:
        self.got = bytearray()

    def fileno(self) -> int:
        return -1

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        self.got += data[:1000]
        return len(data[:1000])


def test_a_sink_without_descriptor_receives_every_byte(place: tuple[Disk, str]) -> None:
    disk, root = place
    data = pattern(BIG)
    file = disk.open(f"{root}/a", create=True)
    file.append([data])
    part = file.slice(0, BIG)
    sink = WrappingSink()
    while len(sink.got) < BIG:
        part.send_to(sink, len(sink.got))
    assert sink.got == data
    file.close()


def test_locks_are_exclusive_until_released(place: tuple[Disk, str]) -> None:
    disk, root = place
    first = disk.lock(f"{root}/.lock")
    other = disk.lock(f"{root}/.other")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    first.release()
    first.release()
    again = disk.lock(f"{root}/.lock")
    assert disk.names(root) == [".lock", ".other"]
    first.release()
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    again.release()
    other.release()


def test_write_atomically_replaces_the_whole_file(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.open(f"{root}/c.tmp", create=True).append([b"left over from a crash"])
    disk.write_atomically(f"{root}/c", b"first")
    disk.write_atomically(f"{root}/c", b"2nd", sync=False)
    assert disk.read_bytes(f"{root}/c") == b"2nd"
    assert disk.names(root) == ["c"]


def test_an_atomic_write_that_fails_leaves_nothing_behind(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_folder(f"{root}/c/below")
    with pytest.raises(OSError, match="c"):  # A file does not replace a folder.
        disk.write_atomically(f"{root}/c", b"content")
    assert disk.names(root) == ["c"]


def test_empty_bytes_slices() -> None:
    empty = BytesSlice(b"")
    assert empty.length == 0
    assert empty.send_to(WrappingSink(), 0) == 0


NAMES = st.sampled_from(["a", "b", "f/a", "f/b", "f/g", "f/g/a", "h", "a/x"])
NUMBERS = st.integers(0, 9000)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), NAMES),
        st.tuples(st.just("append"), NUMBERS, NUMBERS),
        st.tuples(st.just("write_at"), NUMBERS, NUMBERS, NUMBERS),
        st.tuples(st.just("truncate"), NUMBERS, NUMBERS),
        st.tuples(st.just("read"), NUMBERS, NUMBERS, NUMBERS),
        st.tuples(st.just("close"), NUMBERS),
        st.tuples(st.just("make_folder"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("remove_tree"), NAMES),
        st.tuples(st.just("list"), NAMES),
    ),
    max_size=30,
)


def run(disk: Disk, root: str, steps: list[tuple[object, ...]]) -> list[object]:
    """The results that a program sees, as plain values."""
    handles = []
    seen: list[object] = []
    for step in steps:
        try:
            match step:
                case "open", str(name):
                    handles.append(disk.open(f"{root}/{name}", create=True))
                case "append", int(which), int(count) if handles:
                    seen.append(handles[which % len(handles)].append([pattern(count, which)]))
                case "write_at", int(which), int(offset), int(count) if handles:
                    handles[which % len(handles)].write_at(offset, pattern(count, offset))
                case "truncate", int(which), int(size) if handles:
                    handles[which % len(handles)].truncate(size)
                case "read", int(which), int(offset), int(count) if handles:
                    handle = handles[which % len(handles)]
                    seen.append(
                        (handle.size, handle.read_at(offset, count), handle.slice(offset, count).read())
                    )
                case "close", int(which) if handles:
                    handles.pop(which % len(handles)).close()
                case "rename", str(old), str(new):
                    disk.rename(f"{root}/{old}", f"{root}/{new}")
                case "list", str(name):
                    seen.append(disk.names(f"{root}/{name}"))
                case str(method), str(name):
                    getattr(disk, method)(f"{root}/{name}")
        except OSError as error:
            seen.append(errno.errorcode[error.errno or 0])
    seen.append([(handle.path[len(root) :], handle.read_at(0, handle.size)) for handle in handles])
    for handle in handles:
        handle.close()
    seen.append(disk.names(root))
    return seen


@settings(max_examples=150)
@given(steps=STEPS)
def test_all_kinds_give_the_same_results(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    seen = {}
    for kind in ("folder", "folder-one-descriptor", "memory", "simulated"):
        disk, root = make(kind, tmp_path_factory.mktemp("disk"))
        seen[kind] = run(disk, root, steps)
        if isinstance(disk, FolderDisk):
            assert disk.open_descriptors == 0
    assert seen["folder-one-descriptor"] == seen["folder"]
    assert seen["memory"] == seen["folder"]
    assert seen["simulated"] == seen["folder"]
