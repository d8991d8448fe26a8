"""`StorageOptions`: the settings of the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcp_py.options.fields import STORAGE, setting
from kcp_py.options.kinds import DURATION, OPTIONAL_PATH, PREFIX, SIZE, URLS, choice


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """The settings of the store."""

    storage: Literal["sqlite", "memory", "etcd"] = setting(
        choice("sqlite", "memory", "etcd"),
        "sqlite",
        STORAGE,
        "Where objects are stored: sqlite is embedded and durable, etcd is shared by several servers, memory is lost at exit.",
    )
    storage_path: Path | None = setting(OPTIONAL_PATH, None, STORAGE, "File of the sqlite store. Default: kcp.db in the root directory.")
    storage_reserve: int = setting(
        SIZE,
        32 * 1024 * 1024,
        STORAGE,
        "Disk space that is reserved for deletions on a full disk (sqlite); 0 reserves none.",
    )
    etcd_servers: tuple[str, ...] = setting(URLS, (), STORAGE, "Endpoints of etcd: scheme://host:port, comma separated.")
    etcd_prefix: str = setting(PREFIX, "/registry", STORAGE, "Prefix of every key, with every driver.")
    etcd_cafile: Path | None = setting(OPTIONAL_PATH, None, STORAGE, "Certificate authority (PEM) for the certificates of etcd.")
    etcd_certfile: Path | None = setting(OPTIONAL_PATH, None, STORAGE, "Client certificate (PEM) for etcd.")
    etcd_keyfile: Path | None = setting(OPTIONAL_PATH, None, STORAGE, "Private key (PEM) of --etcd-certfile.")
    etcd_username_file: Path | None = setting(
        OPTIONAL_PATH, None, STORAGE, "File with the user name for etcd, if etcd authenticates by password."
    )
    etcd_password_file: Path | None = setting(OPTIONAL_PATH, None, STORAGE, "File with the password for etcd.")
    watch_cache_bytes: int = setting(
        SIZE,
        64 * 1024 * 1024,
        STORAGE,
        "Memory for objects and lists that are answered without reading them from etcd again; 0: every read is a call of etcd.",
    )
    etcd_compaction_interval: float = setting(
        DURATION,
        300.0,
        STORAGE,
        "Interval at which one of the servers compacts older history of etcd, so that one to two intervals are kept; 0: never.",
    )
