"""Programs of the Go modules in `e2e/go`: built on request, because a first build compiles all of client-go, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

BUILD_SECONDS: Final = 900
"""A first build compiles client-go and controller-runtime, on a busy machine."""
DOWNLOAD_SECONDS: Final = 300
MODULES: Final = Path(__file__).parent / "go"
_CACHE: Final = Path(__file__).resolve().parents[1] / ".cache" / "e2e-go"
"""Where programs are kept; `KCP_PY_TEST_GO_CACHE` names another folder."""
ALL: Final = "all"
"""The value of `KCP_PY_TEST_GO` that asks for programs that take minutes to build as well."""


def built(module: Path, *command: str, large: bool = False) -> Path:
    """A program, from the cache or built now. The test is skipped where it is not built, not asked for, or cannot be built here.

    Args:
        module: the folder of the module. A program that was built from other files of the folder is not used.
        command: of `go`, without `-o` and the flags of every build.
        large: whether the build takes minutes of a processor beyond those of the Go clients.
    """
    cache = Path(os.environ.get("KCP_PY_TEST_GO_CACHE") or _CACHE)
    binary = cache / f"{module.name}-{_digest(module)}"
    if binary.exists():
        return binary
    asked = os.environ.get("KCP_PY_TEST_GO", "")
    if large and asked != ALL:
        pytest.skip(f"{module.name} is not built: `make test GO=all` builds and runs it, and all other Go tests")
    if asked in {"", "0"}:
        pytest.skip("the Go tests are not built: `make test GO=1` or `make e2e-go` builds and runs them")
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain in PATH")
    try:
        download = subprocess.run(
            [go, "mod", "download"], cwd=module, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the Go modules do not come within {DOWNLOAD_SECONDS} seconds")
    if download.returncode:
        pytest.skip(f"the Go modules cannot be had: {download.stderr.strip()[-200:]}")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # Workers of one run share the program: the first one builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            for outdated in cache.glob(f"{module.name}-*"):
                outdated.unlink()
            unfinished = cache / "building"
            # Symbols would only make it larger.
            verb, *rest = command
            whole = [go, verb, "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished), *rest]
            completed = subprocess.run(whole, cwd=module, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
            assert completed.returncode == 0, completed.stderr
            unfinished.rename(binary)
    return binary


def folder_of(module: Path, required: str) -> Path:
    """Where the Go toolchain keeps the files of a module that another one requires. The test is skipped without them."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain in PATH")
    command = [go, "mod", "download", "-json", required]
    found = subprocess.run(command, cwd=module, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    if found.returncode:
        pytest.skip(f"the Go modules cannot be had: {found.stderr.strip()[-200:]}")
    return Path(json.loads(found.stdout)["Dir"])


def _digest(module: Path) -> str:
    """A digest of the files of a module: a program that was built from other sources has another name."""
    digest = hashlib.sha256()
    for file in sorted(module.iterdir()):
        # Folders are modules of their own.
        if file.is_file():
            digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
