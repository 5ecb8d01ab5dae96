"""Real files: the descriptor cache, with and without system features, device errors, locks between
processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.disk import descriptor_io
from barnabas.runtime.disk.descriptor_io import ALL_FEATURES, NO_FEATURES, DiskFeatures
from barnabas.runtime.disk.disk import BytesSlice, Slice
from barnabas.runtime.disk.folder_disk import FolderDisk, FolderFile

CAP = 8
FILES = 300


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def descriptors_below(root: str) -> int:
    """Of this process, on files below a folder: what other tests left behind may be closed at any time."""
    if sys.platform != "linux":
        pytest.skip("descriptors have no names here")
    targets = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(target.startswith(f"{root}/") for target in targets)


def open_many(disk: FolderDisk, root: str) -> list[FolderFile]:
    files = [disk.open(f"{root}/{number:03}", create=True) for number in range(FILES)]
    for number, file in enumerate(files):
        file.append([b"%03d" % number])
    return files


def test_hundreds_of_open_files_use_few_descriptors(root: str) -> None:
    disk = FolderDisk(open_files_max=CAP)
    files = open_many(disk, root)
    assert disk.open_descriptors == descriptors_below(root) == CAP
    for round_ in range(2):
        for number, file in enumerate(files):
            file.append([b"+%d" % round_])
            assert file.read_at(0, 3) == b"%03d" % number
            file.sync()
    assert disk.open_descriptors == CAP
    assert {disk.read_bytes(file.path)[3:] for file in files} == {b"+0+1"}
    for file in files:
        file.close()
    assert disk.open_descriptors == descriptors_below(root) == 0


def test_the_most_recently_used_file_keeps_its_descriptor(root: str) -> None:
    disk = FolderDisk(open_files_max=CAP)
    files = open_many(disk, root)
    hot = files[0]
    hot.read_at(0, 1)
    descriptor = hot._file.descriptor
    for file in files[1 : CAP * 3]:
        file.read_at(0, 1)
        hot.read_at(0, 1)
    assert hot._file.descriptor == descriptor
    for file in files:
        file.close()


def test_slices_keep_at_most_half_of_the_descriptors_open(root: str) -> None:
    """The others are read at once; when the first ones are collected, slices can keep descriptors again."""
    disk = FolderDisk(open_files_max=CAP)
    files = open_many(disk, root)
    slices: list[Slice] = [file.slice(0, 3) for file in files]
    # Another slice of a file that is already kept open needs no additional descriptor.
    slices.append(files[0].slice(1, 2))
    assert [part.read() for part in slices] == [*(b"%03d" % number for number in range(FILES)), b"00"]
    assert disk.open_descriptors <= CAP
    assert sum(isinstance(part, BytesSlice) for part in slices) == FILES - CAP // 2
    slices.clear()
    gc.collect()
    assert not isinstance(files[-1].slice(0, 3), BytesSlice)
    for file in files:
        file.close()


def test_folders_are_listed_synced_and_locked_when_no_descriptor_is_free(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle files release theirs; it fails only when none is idle."""
    disk = FolderDisk(open_files_max=100)
    os.makedirs(f"{root}/t/below")
    files = [disk.open(f"{root}/{number}", create=True) for number in range(8)]
    real = {name: getattr(os, name) for name in ("listdir", "open")}
    most = 5

    def scarce(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if disk.open_descriptors > most:
                raise OSError(errno.EMFILE, "Too many open files")
            return real[name](*args, **options)

        return call

    for name in real:
        monkeypatch.setattr(os, name, scarce(name))
    assert len(disk.names(root)) == 9
    assert disk.open_descriptors == 5
    disk.sync_folder(root)
    disk.sync_below(root)
    disk.lock(f"{root}/.lock").release()
    disk.remove_tree(f"{root}/t")
    slices = [file.slice(0, 0) for file in files[:5]]
    most = 0
    with pytest.raises(OSError, match="Too many"):
        disk.sync_folder(root)
    monkeypatch.undo()
    del slices
    for file in files:
        file.close()


def test_a_renamed_folder_moves_its_files_and_no_others(root: str) -> None:
    disk = FolderDisk()
    folders = ["t-1", "t-1/deep", "t-1/deep/er", "t-1-2", "t-1.x", "t-10", "t-1~", "t-", "t"]
    files = {}
    for folder in folders:
        os.makedirs(f"{root}/{folder}", exist_ok=True)
        files[folder] = disk.open(f"{root}/{folder}/f", create=True)
    disk.rename(f"{root}/t-1", f"{root}/z")
    for folder in folders:
        moved = folder.replace("t-1", "z") if folder.split("/")[0] == "t-1" else folder
        assert files[folder].path == f"{root}/{moved}/f"
    disk.remove_tree(f"{root}/z")
    assert [folder for folder in folders if files[folder]._file.nameless] == folders[:3]
    for file in files.values():
        file.close()
    assert disk.open_descriptors == 0


def test_files_with_a_closed_descriptor_follow_renames_and_survive_removal(root: str) -> None:
    disk = FolderDisk(open_files_max=CAP)
    os.mkdir(f"{root}/in")
    inside = disk.open(f"{root}/in/x", create=True)
    inside.append([b"inside"])
    removed = disk.open(f"{root}/in/y", create=True)
    removed.append([b"gone"])
    files = open_many(disk, root)
    assert inside._file.descriptor < 0
    for number in range(0, FILES, 3):
        disk.rename(f"{root}/{number:03}", f"{root}/{number:03}.renamed")
    for number in range(1, FILES, 3):
        disk.remove(f"{root}/{number:03}")
    for number in range(2, 200, 3):
        disk.rename(f"{root}/000.renamed", f"{root}/{number:03}")
        disk.rename(f"{root}/{number:03}", f"{root}/000.renamed")
    disk.rename(f"{root}/in", f"{root}/out")
    assert inside.read_at(0, 9) == b"inside"
    assert inside.path == f"{root}/out/x"
    disk.remove_tree(f"{root}/out")
    assert (inside.read_at(0, 9), removed.read_at(0, 9)) == (b"inside", b"gone")
    for number, file in enumerate(files):
        assert file.read_at(0, 9) == b"%03d" % number
        file.append([b"more"])
    # Files with a name obey the cap; those without cannot be reopened and keep their descriptor.
    nameless = 2 + FILES // 3 + len(range(2, 200, 3))
    assert disk.open_descriptors <= nameless + CAP
    for file in [*files, inside, removed]:
        file.close()
    assert disk.open_descriptors == 0


def test_slices_keep_descriptors_until_they_are_collected(root: str) -> None:
    disk = FolderDisk(open_files_max=CAP)
    kept = CAP // 2
    files = open_many(disk, root)
    slices = [file.slice(0, 3) for file in files[:kept]]
    subs = [part.sub(1, 2) for part in slices]
    for file in files:
        file.read_at(0, 1)
        disk.remove(file.path)
        file.close()
    assert disk.open_descriptors == kept
    assert [part.read() for part in slices] == [b"%03d" % number for number in range(kept)]
    slices.clear()
    assert disk.open_descriptors == kept
    assert [part.read() for part in subs] == [(b"%03d" % number)[1:] for number in range(kept)]
    subs.clear()
    assert disk.open_descriptors == 0


def test_slices_in_a_cycle_are_collected_at_any_moment(root: str) -> None:
    """A finalizer may run while the cache's lock is held; it must neither wait for it nor lose its pin."""
    disk = FolderDisk(open_files_max=CAP)
    files = open_many(disk, root)[:20]
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for file in files * 20:
            cycle: list[object] = [file.slice(0, 1)]
            cycle.append(cycle)
            del cycle
            file.read_at(0, 1)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    files[0].read_at(0, 1)  # Takes the lock, and processes the pins that finalizers queued.
    assert disk.open_descriptors <= CAP
    assert all(file._file.pins == 0 for file in files)


def test_a_finalizer_inside_the_lock_leaves_its_pin_to_the_next_owner(root: str) -> None:
    disk = FolderDisk()
    file = disk.open(f"{root}/a", create=True)
    part = file.slice(0, 0)
    with file._cache._lock:
        del part
    assert file._file.pins == 1
    file.close()
    assert disk.open_descriptors == 0


def test_idle_descriptors_are_closed_when_there_are_too_many(root: str) -> None:
    disk = FolderDisk()
    files = open_many(disk, root)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    resource.setrlimit(resource.RLIMIT_NOFILE, (own_descriptors() + 2, limits[1]))
    try:
        others = [disk.open(f"{root}/more{number}", create=True) for number in range(20)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert files[0].read_at(0, 9) == b"000"
    for file in [*files, *others]:
        file.close()
    assert disk.open_descriptors == 0


def test_threads_share_a_disk_with_too_few_descriptors(root: str) -> None:
    disk = FolderDisk(open_files_max=2)
    files = open_many(disk, root)[:12]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round_ in range(150):
                file = files[(number + round_) % len(files)]
                expected = file.path[-3:].encode()
                assert file.read_at(0, 3) == expected
                assert file.slice(0, 3).read() == expected
                files[number].append([b"%d" % number])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [files[number].read_at(3, 999) for number in range(6)] == [b"%d" % n * 150 for n in range(6)]


def test_a_replaced_file_is_detected(root: str) -> None:
    disk = FolderDisk(open_files_max=1)
    file = disk.open(f"{root}/a", create=True)
    file.append([b"ours"])
    other = disk.open(f"{root}/b", create=True)
    other.append([b"takes the only descriptor"])
    Path(f"{root}/new").write_bytes(b"theirs")
    os.replace(f"{root}/new", f"{root}/a")
    with pytest.raises(OSError, match="another process replaced the file") as caught:
        file.read_at(0, 9)
    assert caught.value.errno == errno.ESTALE
    # Opening the name now returns the new file.
    assert disk.read_bytes(f"{root}/a") == b"theirs"
    file.close()
    other.close()
    os.unlink(f"{root}/a")
    assert disk.open(f"{root}/a", create=True).size == 0


def test_files_that_vanished_do_not_stand_in_the_way(root: str) -> None:
    disk = FolderDisk(open_files_max=1)
    os.mkdir(f"{root}/t")
    files = [disk.open(f"{root}/t/{name}", create=True) for name in "abcd"]
    files[3].append([b"holds the only descriptor"])
    for name in "abc":
        os.unlink(f"{root}/t/{name}")
    disk.rename(f"{root}/t/d", f"{root}/t/a")
    disk.remove(f"{root}/t/b")
    disk.remove_tree(f"{root}/t")
    assert not disk.exists(f"{root}/t")
    assert files[3].read_at(0, 5) == b"holds"
    for file in files[:3]:
        with pytest.raises(OSError):
            file.read_at(0, 1)
    for file in files:
        file.close()
    assert disk.open_descriptors == 0


def test_a_truncation_below_a_slice_is_an_error_not_an_endless_loop(root: str) -> None:
    for features in (ALL_FEATURES, NO_FEATURES):
        disk = FolderDisk(features=features)
        file = disk.open(f"{root}/a", create=True)
        file.append([b"0123456789"])
        part = file.slice(0, 10)
        file.truncate(4)
        with pytest.raises(OSError, match="truncated below this slice"):
            part.read()
        left, right = socket.socketpair()
        with left, right:
            assert part.send_to(left, 0) == 4
            with pytest.raises(OSError, match="truncated below this slice"):
                part.send_to(left, 4)
        file.truncate(0)
        file.close()


def test_sendfile_is_used_where_available(root: str, monkeypatch: pytest.MonkeyPatch) -> None:  # M-E2
    calls: list[str] = []
    real_sendfile, real_pread = os.sendfile, os.pread
    monkeypatch.setattr(os, "sendfile", lambda *given: (calls.append("sendfile"), real_sendfile(*given))[1])
    monkeypatch.setattr(os, "pread", lambda *given: (calls.append("pread"), real_pread(*given))[1])
    for features, expected in ((ALL_FEATURES, "sendfile"), (replace(ALL_FEATURES, sendfile=False), "pread")):
        file = FolderDisk(features=features).open(f"{root}/{expected}", create=True)
        file.append([b"0123456789"])
        calls.clear()
        left, right = socket.socketpair()
        with left, right:
            assert file.slice(2, 5).send_to(left, 1) == 4
            assert right.recv(99) == b"3456"
        assert calls == [expected]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EPIPE])
def test_unsupported_sendfile_falls_back(root: str, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_given: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "sendfile", refuse)
    file = FolderDisk().open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    left, right = socket.socketpair()
    with left, right:
        if code == errno.EINVAL:
            assert file.slice(0, 10).send_to(left, 5) == 5
            assert right.recv(99) == b"56789"
        else:
            with pytest.raises(BrokenPipeError):
                file.slice(0, 10).send_to(left, 5)


def test_residency_is_probed_every_stride_and_at_the_end(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FolderDisk().open(f"{root}/a", create=True)
    file.truncate(1 << 20)
    file.write_at(0, bytes(1 << 20))
    stride = descriptor_io.RESIDENT_PROBE_BYTES
    part = file.slice(10, 3 * stride)
    assert part.is_resident()
    probed: list[int] = []
    cold: set[int] = set()
    failing = 0

    def probe(_descriptor: int, _buffers: object, position: int, _flags: int) -> int:
        probed.append(position)
        if failing:
            raise OSError(failing, "")
        if position in cold:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", probe)
    assert part.is_resident()
    assert probed == [10, 10 + stride, 10 + 2 * stride, 9 + 3 * stride]
    for position in probed[:4]:
        cold = {position}
        assert not part.is_resident()
    assert file.slice(5, 0).is_resident()
    failing = errno.EOPNOTSUPP
    assert part.is_resident()
    failing = errno.EIO
    with pytest.raises(OSError):
        part.is_resident()
    plain = FolderDisk(features=NO_FEATURES).open(f"{root}/a").slice(10, 3 * stride)
    probed.clear()
    assert plain.is_resident()
    assert probed == []


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no way to empty the cache")
def test_a_range_dropped_from_the_cache_is_cold(root: str) -> None:
    file = FolderDisk().open(f"{root}/a", create=True)
    file.append([os.urandom(4 << 20)])
    file.sync()
    part = file.slice(0, 4 << 20)
    assert part.is_resident()
    os.posix_fadvise(file._file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if part.is_resident():
        pytest.skip("this file system keeps its pages or cannot report residency")
    part.bring_in()
    assert part.is_resident()


@pytest.mark.parametrize("features", [ALL_FEATURES, NO_FEATURES])
def test_loading_a_range_reads_all_of_it_and_stops_at_the_end_of_the_file(
    root: str, monkeypatch: pytest.MonkeyPatch, features: DiskFeatures
) -> None:
    file = FolderDisk(features=features).open(f"{root}/a", create=True)
    file.append([bytes(300_000)])
    part = file.slice(1000, 299_000)
    until: list[int] = []
    real_pread, real_preadv = os.pread, os.preadv

    def pread(descriptor: int, length: int, position: int) -> bytes:
        data = real_pread(descriptor, length, position)
        until.append(position + len(data))
        return data

    def preadv(descriptor: int, buffers: Sequence[bytearray], position: int) -> int:
        count = real_preadv(descriptor, buffers, position)
        until.append(position + count)
        return count

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(os, "preadv", preadv)
    part.bring_in()
    assert max(until) == 300_000
    file.truncate(5000)
    until.clear()
    part.bring_in()
    assert max(until) == 5000


def test_partial_writes_are_completed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = os.pwrite

    def stingy_pwritev(descriptor: int, parts: list[memoryview], offset: int) -> int:
        assert len(parts) <= descriptor_io.IO_VECTOR_MAX
        return real_pwrite(descriptor, b"".join(parts)[:7], offset)

    def stingy_pwrite(descriptor: int, part: memoryview, offset: int) -> int:
        return real_pwrite(descriptor, part[:3], offset)

    parts = [bytes([65 + number % 26]) * (number % 13) for number in range(2100)]
    for features in (ALL_FEATURES, NO_FEATURES):
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", stingy_pwritev)
            patch.setattr(os, "pwrite", stingy_pwrite)
            if features is NO_FEATURES:
                patch.setattr(os, "pwritev", None)
            else:
                patch.setattr(os, "pwrite", real_pwrite)
            file = FolderDisk(features=features).open(f"{root}/a", create=True)
            file.truncate(0)
            assert file.append(parts) == 0
            assert file.read_at(0, 1 << 20) == b"".join(parts)
    monkeypatch.setattr(os, "pwritev", lambda *_given: 0)
    with pytest.raises(OSError, match="accepts no more bytes"):
        file = FolderDisk().open(f"{root}/b", create=True)
        file.append([b"x"])


def test_partial_reads_are_completed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pread, real_preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, count, offset: real_pread(fd, min(count, 7), offset))
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: real_preadv(fd, [views[0][:7]], offset))
    data = os.urandom(1000)
    for features in (ALL_FEATURES, NO_FEATURES):
        file = FolderDisk(features=features).open(f"{root}/a", create=True)
        file.write_at(0, data)
        assert file.read_at(3, 5000) == data[3:]
        buffer = bytearray(2000)
        assert file.read_into(3, buffer) == 997
        assert buffer[:997] == data[3:]
        file.close()


def test_a_failed_append_leaves_the_true_size(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC in the middle: the caller truncates to the previous size and continues."""
    real_pwrite = os.pwrite
    file = FolderDisk().open(f"{root}/a", create=True)
    file.append([b"whole"])
    results = [5]

    def fill_up(descriptor: int, parts: list[bytes], offset: int) -> int:
        if not results:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_pwrite(descriptor, b"".join(parts)[: results.pop()], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", fill_up)
        with pytest.raises(OSError) as caught:
            file.append([b"0123456789"])
    assert caught.value.errno == errno.ENOSPC
    assert file.size == 10
    file.truncate(5)
    assert file.append([b"!"]) == 5
    assert file.read_at(0, 99) == b"whole!"


def test_a_failed_sync_is_never_forgotten(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a lost write once; a later sync must not report success."""
    disk = FolderDisk(open_files_max=1)
    file = disk.open(f"{root}/a", create=True)
    second = disk.open(f"{root}/a")
    file.append([b"x"])
    with monkeypatch.context() as patch:

        def fail(_descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(os, "fdatasync", fail)
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="may be lost"):
            file.sync()
    disk.open(f"{root}/b", create=True).append([b"takes the only descriptor"])
    assert file._file.descriptor < 0
    for handle in (file, second):
        with pytest.raises(OSError, match="may be lost") as caught:
            handle.sync()
        assert caught.value.errno == errno.EIO


def test_an_error_of_close_is_reported_by_the_next_sync(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FolderDisk(open_files_max=1)
    file = disk.open(f"{root}/a", create=True)
    file.append([b"x"])
    real_close = os.close

    def close(descriptor: int) -> None:
        real_close(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        other = disk.open(f"{root}/b", create=True)
    assert other.size == 0
    with pytest.raises(OSError, match="may be lost"):
        file.sync()


@pytest.mark.parametrize("features", [ALL_FEATURES, NO_FEATURES])
def test_another_process_finds_the_folder_locked(root: str, features: descriptor_io.DiskFeatures) -> None:
    program = (
        "import sys\n"
        "from barnabas.runtime.disk.folder_disk import FolderDisk\n"
        "from barnabas.runtime.disk.descriptor_io import ALL_FEATURES, NO_FEATURES\n"
        "try: FolderDisk(features=eval(sys.argv[2])).lock(sys.argv[1])\n"
        "except BlockingIOError: print('locked')\n"
        "else: print('free')\n"
    )
    name = "ALL_FEATURES" if features is ALL_FEATURES else "NO_FEATURES"

    def state() -> str:
        command = [sys.executable, "-c", program, f"{root}/.lock", name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    lock = FolderDisk(features=features).lock(f"{root}/.lock")
    assert state() == "locked"
    # Another attempt in this process, and its failure, do not release the lock.
    with pytest.raises(BlockingIOError):
        FolderDisk(features=features).lock(f"{root}/.lock")
    assert state() == "locked"
    lock.release()
    assert state() == "free"


@pytest.mark.skipif(not ALL_FEATURES.description_locks, reason="no open file description locks here")
def test_a_lock_excludes_that_of_a_java_process(root: str) -> None:
    """Java's FileChannel.tryLock takes a POSIX lock of the whole file, as lockf does."""
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: print('locked', flush=True)\n"
        "else: print('free', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, f"{root}/.lock"]
    lock = FolderDisk().lock(f"{root}/.lock")
    output = subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout
    assert output.strip() == "locked"
    lock.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "free"
        with pytest.raises(BlockingIOError):
            FolderDisk().lock(f"{root}/.lock")
        holder.communicate("")
    FolderDisk().lock(f"{root}/.lock").release()


def test_description_locks_fall_back_to_flock(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.fcntl

    def unsupported(descriptor: int, command: int, argument: bytes = b"") -> int | bytes:
        if command == descriptor_io._DESCRIPTION_LOCK:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", unsupported)
    lock = FolderDisk().lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        FolderDisk().lock(f"{root}/.lock")
    lock.release()


def test_a_descriptor_is_not_inherited(root: str) -> None:
    disk = FolderDisk()
    reader = disk.open(f"{root}/a", create=True, writable=False)
    writer = disk.open(f"{root}/a")
    assert not os.get_inheritable(writer._file.descriptor)
    assert reader._file is writer._file


def test_sparse_files_take_no_space(root: str) -> None:
    file = FolderDisk().open(f"{root}/a", create=True)
    file.truncate(1 << 40)
    assert file.size == 1 << 40
    assert file.read_at((1 << 40) - 3, 1 << 40) == bytes(3)
    assert os.stat(file.path).st_blocks < 100


@pytest.mark.parametrize("writable", [False, True])
def test_a_file_that_is_not_regular_is_rejected_at_once(tmp_path: Path, writable: bool) -> None:
    """Opening a pipe would wait for its other end, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    disk = FolderDisk()
    for path in (str(tmp_path / "pipe"), os.devnull):
        with pytest.raises(OSError, match="not a regular file") as caught:
            disk.open(path, writable=writable)
        assert caught.value.filename == path
    assert disk.open_descriptors == 0


def test_a_file_that_becomes_writable_ends_where_it_ends_now(tmp_path: Path) -> None:
    """Another process has appended since it was opened for reading."""
    path = tmp_path / "0.log"
    path.write_bytes(b"one")
    disk = FolderDisk()
    reading = disk.open(str(path), writable=False)
    assert reading.size == 3
    with path.open("ab") as other:
        other.write(b"two")
    writing = disk.open(str(path))
    assert writing.size == 6
    writing.append([b"three"])
    assert (writing.size, path.read_bytes()) == (11, b"onetwothree")
    writing.close()
    reading.close()
