"""The store of a server: which one it is, its compaction, its health, and the key that all servers of the store share."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.supervisor import Supervisor
from kcp_py.options import Options
from kcp_py.storage.compaction import CompactionPolicy, run_compaction, run_shared_compaction
from kcp_py.storage.contract import Compare, ConflictError, NoSpaceError, Put, Storage, StorageError, TellsRoom
from kcp_py.storage.keys import internal_key
from kcp_py.storage.opening import open_storage
from kcp_py.storage.rangecache import range_cache_of
from kcp_py.storage.watched import WatchedStorage
from kcp_py.storage.wrapping import driver_of

_TOKEN_KEY_BYTES: Final = 32

GivenStorage = Storage | Callable[[Storage], Storage] | None
"""A store, or a function that wraps the store of the options."""


def uses_store_of_options(given: GivenStorage) -> bool:
    """Whether the store of the options is used, wrapped or not."""
    # A class of stores has the methods of a store, and is a function that makes one.
    return given is None or isinstance(given, type) or not hasattr(given, "transact")


def storage_of(given: GivenStorage, options: Options) -> Storage:
    """The unopened store of a control plane.

    Raises:
        StorageError: as `choose_storage`.
        OSError: as `choose_storage`.
    """
    return wrapped_by(given, choose_storage(options)) if uses_store_of_options(given) else cast("Storage", given)


def database_file(given: GivenStorage, options: Options) -> Path | None:
    """The file of an embedded store; None for other stores."""
    return options.database_file if options.storage == "sqlite" and uses_store_of_options(given) else None


def wrapped_by(given: GivenStorage, storage: Storage) -> Storage:
    """A store inside of the given wrapper, or the given store in its place."""
    if given is None:
        return storage
    return cast("Callable[[Storage], Storage]", given)(storage) if uses_store_of_options(given) else cast("Storage", given)


def choose_storage(options: Options) -> Storage:
    """The unopened store of the options.

    Raises:
        StorageError: the libraries of etcd are not installed.
        OSError: a file with the credentials for etcd cannot be read.
    """
    if options.storage == "etcd":
        try:
            from kcp_py.storage.etcd import EtcdOptions, EtcdStorage  # noqa: PLC0415 - its library is large
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            raise StorageError(
                "the storage etcd needs the packages grpcio and protobuf; install them with the extra etcd: pip install 'kcp-py[etcd]'"
            ) from None

        etcd = EtcdStorage(
            EtcdOptions(
                endpoints=options.etcd_servers,
                ca_file=str(options.etcd_cafile or ""),
                cert_file=str(options.etcd_certfile or ""),
                key_file=str(options.etcd_keyfile or ""),
                username=options.etcd_username_file.read_text().strip() if options.etcd_username_file else "",
                password=options.etcd_password_file.read_text().strip() if options.etcd_password_file else "",
                prefix=options.etcd_prefix,
            )
        )
        if not options.watch_cache_bytes:
            return etcd
        return WatchedStorage(etcd, f"{options.etcd_prefix}/", max_bytes=options.watch_cache_bytes)
    if options.storage == "sqlite":
        return open_storage("sqlite", path=options.database_file, reserve_bytes=options.storage_reserve)
    return open_storage(options.storage)


async def check_room(storage: TellsRoom) -> None:
    """Check that objects can be created.

    Raises:
        NoSpaceError: the disk has space for deletions alone.
    """
    if storage.full:
        raise NoSpaceError("the disk is full: nothing but deletions and small changes is taken")


async def continue_token_key(storage: Storage, root: str) -> bytes:
    """The key that signs continue tokens, created once and shared by all servers of a store."""
    key = internal_key(root, "continue-token-key")
    while True:
        found = await storage.get(key)
        if found is not None:
            return found.value
        try:
            await storage.transact([Compare(key, mod_revision=0)], [Put(key, secrets.token_bytes(_TOKEN_KEY_BYTES))])
        except ConflictError:
            continue


def is_shared(storage: Storage, options: Options) -> bool:
    """Whether other processes write to a store."""
    cache = range_cache_of(storage)
    return options.workers > 1 or cache is None or cache.shared


def start_compaction(options: Options, supervisor: Supervisor, storage: Storage, clock: Clock = SYSTEM_CLOCK) -> None:
    """Compact old revisions in the background. Servers of one etcd take turns, at the interval of the options; 0: never.

    A driver without the duty to compact has `compacts = False`: the process that owns the store does.
    """
    if not getattr(driver_of(storage), "compacts", True):
        return
    if options.storage != "etcd":
        policy = CompactionPolicy(seconds=options.event_history_age, revisions=options.event_history_count)
        supervisor.start("compaction", lambda: run_compaction(storage, policy, clock=clock.monotonic, sleep=clock.sleep))
    elif options.etcd_compaction_interval:
        key = internal_key(options.etcd_prefix, "compact-rev-key")
        supervisor.start("compaction", lambda: run_shared_compaction(storage, key, options.etcd_compaction_interval, sleep=clock.sleep))
