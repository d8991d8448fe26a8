"""The size of the package: the time and memory of its imports, its wheel, and the memory of its servers.

Imports are measured with compiled modules, as in an installed program, in a new process each time.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from tests.benchmarks.processes import compiled, kcp
from tests.benchmarks.row import Row

ROOT: Final = Path(__file__).resolve().parents[2]
RUNS: Final = 5
SHOWN: Final = 8
"""How many packages a row names."""
_PROFILE: Final = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)")
IMPORTS: Final = {
    "import kcp_py": "import kcp_py",
    "import of ControlPlane": "from kcp_py import ControlPlane",
    "import of kcp_py.testing": "import kcp_py.testing.local",
    "imports of kcp-py start": (
        "import kcp_py.cli.start, kcp_py.cli.structlogimport as first; first.import_structlog(); "
        "import kcp_py.cli.process, kcp_py.controlplane"
    ),
}
_MEMORY: Final = """
import re
print(int(re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())[1]))
"""
_MEMORY_READY: Final = f"""
import asyncio
from kcp_py import ControlPlane, Options

async def ready():
    async with ControlPlane(Options(storage="memory")):
        exec({_MEMORY!r})

asyncio.run(ready())
"""


def output(text: str, directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """What a program prints that runs with compiled modules."""
    return subprocess.run(
        [sys.executable, *flags, "-c", text], env=compiled(directory), check=True, capture_output=True, text=True, cwd=ROOT
    )


def import_times(profile: str) -> tuple[Counter[str], Counter[str]]:
    """Microseconds by package, without what each package imports, of the output of `python -X importtime`.

    Returns:
        By the first part of the name, with Python's own modules as `python`; and of `kcp_py` by its packages.
    """
    packages: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for spent, name in _PROFILE.findall(profile):
        first, _, rest = name.partition(".")
        packages["python" if first in sys.stdlib_module_names else first] += int(spent)
        if first == "kcp_py":
            own[rest.partition(".")[0] or "kcp_py"] += int(spent)
    return packages, own


async def imports_row(directory: Path) -> AsyncIterator[Row]:
    """The time of each import by package. Of several runs the shortest counts."""
    nothing = import_times(output("", directory, "-X", "importtime").stderr)[0].total()
    for work, text in IMPORTS.items():
        output(text, directory)
        runs = [import_times(output(text, directory, "-X", "importtime").stderr) for _ in range(RUNS)]
        packages, own = min(runs, key=lambda run: run[0].total())
        total = max(0, packages.total() - nothing)
        yield Row(work, f"{total / 1000:.0f} ms", "", "", "", _shown(packages))
        if text == IMPORTS["imports of kcp-py start"]:
            yield Row("the same, packages of kcp_py", f"{own.total() / 1000:.0f} ms", "", "", "", _shown(own))


def _shown(times: Counter[str]) -> str:
    return ", ".join(f"{name} {spent / 1000:.0f}" for name, spent in times.most_common(SHOWN))


async def wheel_row(directory: Path) -> AsyncIterator[Row]:
    """The wheel of this checkout, and which packages fill it."""
    target = directory / "wheel"
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    wheel = next(target.glob("*.whl"))
    with zipfile.ZipFile(wheel) as packed:
        files = packed.infolist()
    packages: Counter[str] = Counter()
    for file in files:
        parts = file.filename.split("/")
        packages[parts[1] if parts[0] == "kcp_py" and len(parts) > 2 else parts[0]] += file.compress_size
    more = ", ".join(f"{name} {size // 1000} kB" for name, size in packages.most_common(SHOWN))
    size = wheel.stat().st_size / 1e6
    unpacked = sum(file.file_size for file in files) / 1e6
    yield Row("wheel", f"{size:.2f} MB", "", "", "<= 2.5 MB", f"{len(files)} files, {unpacked:.1f} MB unpacked: {more}")


async def memory_row(directory: Path) -> AsyncIterator[Row]:
    """Resident memory of programs that import the package, of a control plane in a program, and of servers."""
    programs = {"Python alone": _MEMORY, **{work: f"{text}\n{_MEMORY}" for work, text in IMPORTS.items()}}
    for work, text in {**programs, "a control plane in memory, ready": _MEMORY_READY}.items():
        kilobytes = min(int(output(text, directory).stdout.split()[-1]) for _ in range(RUNS))
        yield Row(f"resident memory: {work}", f"{kilobytes / 1000:.0f} MB", "", "", "")
    for storage in ("sqlite", "memory"):
        with kcp(directory / f"resident-{storage}", "--storage", storage, plain=False) as ours:
            yield Row(f"resident memory: kcp-py start --storage {storage}", f"{ours.resident / 1e6:.0f} MB", "", "", "<= 90 MB")


PACKAGE_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "imports": imports_row,
    "wheel": wheel_row,
    "memory": memory_row,
}
