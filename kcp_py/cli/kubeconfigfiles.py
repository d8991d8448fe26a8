"""Kubeconfigs as files: written for their owner alone, and merged with the entries of a file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kcp_py.cli.exits import CommandError
from kcp_py.kubeconfig.merging import Merged, merge
from kcp_py.serving.files import write_private_file

LOCK_PATIENCE: Final = 10.0
"""Seconds to wait for another program that changes the file."""
_LOCK_POLL: Final = 0.05


def write_new(path: Path, content: bytes, *, force: bool) -> None:
    """Write a kubeconfig for its owner alone. One that has this content already only gets the mode.

    Raises:
        CommandError: another file is there, or it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            raise CommandError(f"{path}: not a regular file")
        if not force and path.exists() and path.read_bytes() == content:
            path.chmod(0o600)
        else:
            write_private_file(path, content, replace=force)
    except FileExistsError:
        raise CommandError(f"{path} exists already; --force replaces it") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def merge_into(path: Path, added: Mapping[str, Any], *, patience: float = LOCK_PATIENCE) -> Merged:
    """Add the context of a kubeconfig to a file, which is made if it is missing. See `kubeconfig.merging.merge`.

    Args:
        path: the file; links are followed, so that they stay.
        added: a kubeconfig with one context.
        patience: seconds to wait for the lock.

    Raises:
        CommandError: the file is not a kubeconfig, is locked, or cannot be written. It is then unchanged.
    """
    import yaml

    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path, patience):
            text = path.read_text("utf-8") if path.exists() else ""
            existing = yaml.safe_load(text)
            if existing is not None and not isinstance(existing, dict):
                raise CommandError(f"{path}: it does not have the form of a kubeconfig")
            merged = merge(existing or {}, added)
            write_private_file(path, yaml.safe_dump(merged.document, sort_keys=False, allow_unicode=True).encode())
    except OSError as error:
        raise CommandError(f"{error.filename2 or error.filename or path}: {error.strerror or error}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise CommandError(f"{path}: {' '.join(str(error).split())}") from None
    return merged


@contextlib.contextmanager
def _locked(path: Path, patience: float) -> Iterator[None]:
    """Within it, `kubectl config` does not change the file: both make a file `NAME.lock` next to it."""
    lock = path.with_name(f"{path.name}.lock")
    give_up = time.monotonic() + patience
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > give_up:
                raise CommandError(f"{path} is locked by another program; delete {lock} if there is none") from None
            time.sleep(_LOCK_POLL)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
