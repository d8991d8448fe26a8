"""Check that no file depends on or mentions the machine on which it was written, and that no work is left unfinished.

The check searches for the path of this checkout, paths below the user's home, the hosts of the package indexes in the configuration of pip,
and marks of unfinished work. It reads the hosts and paths from the machine that runs it, so that this file does not contain them.

    python hack/verify_neutral.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
PUBLIC_HOSTS = {"pypi.org", "localhost"}
UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error"]) + r")\b")
NOT_TEXT = {".png", ".svg", ".ico", ".bin", ".gz"}


def main() -> None:
    forbidden = [re.compile(r"(?<![\w.-])" + re.escape(str(path)) + r"(?=/)") for path in {ROOT, Path.home()} if len(path.parts) > 1]
    forbidden += [re.compile(re.escape(host)) for host in _index_hosts()]
    wrong = []
    for name in _tracked():
        path = ROOT / name
        if path.suffix in NOT_TEXT or not path.is_file() or path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1):
            wrong += [f"{name}:{number}: {found[0]}" for pattern in [*forbidden, UNFINISHED] if (found := pattern.search(line))]
    if wrong:
        sys.exit("\n".join(wrong))


def _tracked() -> list[str]:
    return subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def _index_hosts() -> set[str]:
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    hosts = {urlsplit(url).hostname or "" for url in re.findall(r"https?://[^\s'\"]+", listed)}
    return {host for host in hosts if host and host not in PUBLIC_HOSTS and not host.replace(".", "").isdigit()}


if __name__ == "__main__":
    main()
