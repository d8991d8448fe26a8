"""What `kcp-py backup` and `kcp-py restore` do, with errors as commands tell them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcp_py.cli.exits import CommandError
from kcp_py.options import Options
from kcp_py.serving.files import make_private_directory
from kcp_py.storage.contract import StorageError
from kcp_py.storage.sqlite import backups
from kcp_py.storage.sqlite.state import State


def back_up(options: Options, file: Path) -> State:
    """Copy the store into a new file.

    Raises:
        CommandError: why that cannot be done.
    """
    _check_kind(options, "etcdctl snapshot save")
    with _told():
        return backups.back_up(options.database_file, file)


def restore(options: Options, file: Path, bump: int | None) -> backups.Restored:
    """Put a copy in the place of the store.

    Raises:
        CommandError: why that cannot be done.
    """
    _check_kind(options, "etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted")
    with _told():
        make_private_directory(options.root_directory)
        return backups.restore(file, options.database_file, bump=bump or backups.DEFAULT_BUMP)


def _check_kind(options: Options, instead: str) -> None:
    if options.storage == "etcd":
        raise CommandError(f"the store is etcd: use {instead}")
    if options.storage == "memory":
        raise CommandError("the store is in memory, and there is no file of it")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
