"""Power failures without a plug: what a program writes is recorded, and disks are made that a failure could have left.

`Recorder` sees what SQLite and this process write, rename, remove and sync. `Disk` plays a part of that back. Unsynced bytes are
there or not, in sectors of 512 bytes and in any order. Names that were not synced (those of a folder are) are kept in order, as journaling
file systems do. Of bytes whose sync failed the same is true for ever: the system calls them clean and writes them no more. It reports such
an error once for each open file description, as Linux does since 4.13 (fsync(2)): also the sync of a thread that came second fails.

An operation and its record are one step: another thread sees both or neither, and so does the end of the process (`Recorder.kill`).
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

_SECTOR = 512
_UNRECORDED = ("-shm", ".reserve")


class Step(NamedTuple):
    """Something that happened.

    Attributes:
        kind: write, truncate, sync, lost (a sync that failed), name (of a new file), rename, link, remove, folder (its sync), or note.
        file: its name; for a note its text.
        offset: of a write; the size for truncate.
        data: of a write; the other name for rename and link.
    """

    kind: str
    file: Any
    offset: int = 0
    data: Any = b""


def _as_one_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `Recorder` or `_RecordedFile` that runs while no other thread changes the disk or the record."""

    @functools.wraps(function)
    def call(self: Any, *arguments: Any) -> Any:
        with self.lock:
            return function(self, *arguments)

    return call


class Recorder(apsw.VFS):
    """Records what happens in one folder; the default VFS of the process, and in the place of some functions of `os`.

    To be made before the first connection of the process, in a process of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.lock = threading.RLock()
        """Held by the thread that changes the disk."""
        self.steps: list[Step] = []
        self.sync_fails: Callable[[str], bool] = lambda _: False
        """Whether the disk fails while a file is synced, by its name."""
        self._errors: dict[str, int] = {}
        self._descriptors: dict[int, tuple[str, int]] = {}
        super().__init__("recorder", "unix", makedefault=True)
        self._record_functions()

    def add(self, kind: str, path: str, offset: int = 0, data: Any = b"") -> None:
        """Record a step of a file; others than those in the folder are left out."""
        place = Path(path)
        if kind == "folder":
            if place.resolve() == self.folder:
                self.steps.append(Step(kind, ""))
        elif place.parent.resolve() == self.folder and not place.name.endswith(_UNRECORDED):
            self.steps.append(Step(kind, place.name, offset, data))

    def errors(self, path: str) -> int:
        """The number of failed syncs of a file. A description of it reports those that came after it was opened."""
        return self._errors.get(Path(path).name, 0)

    def sync(self, path: str, reported: int) -> bool:
        """Whether the sync of a file succeeds.

        Args:
            path: its path.
            reported: the number of errors that this description has reported, or had when it was opened.
        """
        if self.sync_fails(Path(path).name):
            self._errors[Path(path).name] = self.errors(path) + 1
            self.add("lost", path)
        return self.errors(path) == reported

    @_as_one_step
    def note(self, text: Any) -> None:
        """Record what the program itself says."""
        self.steps.append(Step("note", text))

    @_as_one_step
    def save(self, path: Path) -> None:
        """Write the steps into a file, for `load`."""
        path.write_bytes(pickle.dumps([tuple(step) for step in self.steps]))

    @_as_one_step
    def kill(self, path: Path) -> None:
        """Save the steps and end the process with exit code 9. No thread changes the disk in between, so the record is complete."""
        self.save(path)
        os._exit(9)

    @_as_one_step
    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        if filename and flags[0] & apsw.SQLITE_OPEN_CREATE and not Path(filename).exists():
            self.add("name", filename)
        return _RecordedFile(self, name, filename or "", flags)

    @_as_one_step
    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        super().xDelete(filename, syncdir)
        self.add("remove", filename)
        if syncdir:
            self.add("folder", str(Path(filename).parent))

    def _record_functions(self) -> None:
        real_open, real_close, real_fsync, real_pwrite, real_truncate = os.open, os.close, os.fsync, os.pwrite, os.truncate

        def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            made = flags & os.O_CREAT and not Path(path).exists()
            descriptor = real_open(path, flags, *arguments, **options)
            self._descriptors[descriptor] = os.fspath(path), self.errors(os.fspath(path))
            if made:
                self.add("name", os.fspath(path))
            return descriptor

        def close(descriptor: int) -> None:
            self._descriptors.pop(descriptor, None)
            real_close(descriptor)

        def fsync(descriptor: int) -> None:
            path, reported = self._descriptors[descriptor]
            if not self.sync(path, reported):
                self._descriptors[descriptor] = path, self.errors(path)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real_fsync(descriptor)
            self.add("folder" if Path(path).is_dir() else "sync", path)

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            self.add("write", self._descriptors[descriptor][0], offset, bytes(data))
            return real_pwrite(descriptor, data, offset)

        def truncate(target: Any, size: int) -> None:
            real_truncate(target, size)
            self.add("truncate", self._descriptors[target][0] if isinstance(target, int) else os.fspath(target), size)

        def two_names(kind: str, real: Callable[..., None]) -> Callable[..., None]:
            def call(source: Any, target: Any, **options: Any) -> None:
                real(source, target, **options)
                self.add(kind, os.fspath(source), 0, Path(target).name)

            return call

        def unlink(path: Any, **options: Any) -> None:
            real_unlink(path, **options)
            self.add("remove", os.fspath(path))

        real_unlink = os.unlink
        replaced: dict[str, Any] = {
            "open": open_,
            "close": close,
            "fsync": fsync,
            "pwrite": pwrite,
            "truncate": truncate,
            "ftruncate": truncate,
            "unlink": unlink,
            "remove": unlink,
            "rename": two_names("rename", os.rename),
            "replace": two_names("rename", os.replace),
            "link": two_names("link", os.link),
        }
        for name, function in replaced.items():
            setattr(os, name, self._locked(function))

    def _locked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with self.lock:
                return function(*arguments, **options)

        return call


class _RecordedFile(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: Any, path: str, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.lock = recorder.lock
        self._recorder = recorder
        self._path = path
        self._errors = recorder.errors(path)
        # The unix VFS syncs the folder with the first sync of a log or journal.
        self._syncs_folder = path.endswith(("-wal", "-journal"))

    @_as_one_step
    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._recorder.add("write", self._path, offset, bytes(data))

    @_as_one_step
    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._recorder.add("truncate", self._path, size)

    @_as_one_step
    def xSync(self, flags: int) -> None:  # noqa: N802
        if not self._recorder.sync(self._path, self._errors):
            self._errors = self._recorder.errors(self._path)
            error = apsw.IOError("the disk failed")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]
            raise error
        super().xSync(flags)
        self._recorder.add("sync", self._path)
        if self._syncs_folder:
            self._syncs_folder = False
            self._recorder.add("folder", str(Path(self._path).parent))


def load(path: Path) -> list[Step]:
    """What `Recorder.save` wrote."""
    return [Step(*step) for step in pickle.loads(path.read_bytes())]


class _File:
    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Step] = []

    def settle(self, keeps: Callable[[], bool]) -> None:
        """Write the pending changes to the disk, for each sector that `keeps` selects."""
        for step in self.pending:
            if step.kind == "truncate":
                if keeps():
                    del self.durable[step.offset :]
                continue
            for at in range(0, len(step.data), _SECTOR):
                if keeps():
                    start, piece = step.offset + at, step.data[at : at + _SECTOR]
                    self.durable.extend(bytes(max(0, start + len(piece) - len(self.durable))))
                    self.durable[start : start + len(piece)] = piece
        self.pending.clear()


class Disk:
    """A disk on which a recorded program ran."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._files: list[_File] = []
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}
        self._name_changes: list[dict[str, int]] = []
        self.noted: list[Any] = []

    def run(self, step: Step) -> None:
        """Let one step happen."""
        if step.kind == "note":
            self.noted.append(step.file)
        elif step.kind == "folder":
            self._durable_names = dict(self._names)
            self._name_changes.clear()
        elif step.kind in ("write", "truncate"):
            self._files[self._names[step.file]].pending.append(step)
        elif step.kind == "sync":
            self._files[self._names[step.file]].settle(lambda: True)
        elif step.kind == "lost":
            self._files[self._names[step.file]].settle(self._some(complete=False))
        else:
            self._rename(step)
            self._name_changes.append(dict(self._names))

    def _rename(self, step: Step) -> None:
        if step.kind == "name":
            self._names[step.file] = len(self._files)
            self._files.append(_File())
        elif step.kind == "remove":
            del self._names[step.file]
        else:
            self._names[step.data] = self._names[step.file]
            if step.kind == "rename":
                del self._names[step.file]

    def _some(self, *, complete: bool = True) -> Callable[[], bool]:
        share = self._chance.choice([0.0, 0.0, 1.0, 1.0, 0.1, 0.5, 0.9] if complete else [0.0, 0.1, 0.5, 0.9])
        left = self._chance.choice([None, self._chance.randrange(1, 60)])  # a beginning only, or sectors here and there
        if left is None or not complete:
            return lambda: self._chance.random() < share
        return iter([True] * left + [False] * 1_000_000).__next__

    def fail(self, folder: Path) -> None:
        """Write into a folder what one failure of the power could leave of the disk, which is not changed by it."""
        names = self._chance.choice([self._durable_names, *self._name_changes])
        folder.mkdir()
        for name, number in names.items():
            file = _File()
            file.durable = bytearray(self._files[number].durable)
            file.pending = list(self._files[number].pending)
            file.settle(self._some())
            (folder / name).write_bytes(file.durable)
