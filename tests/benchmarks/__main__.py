"""Run the rows and print the table: `python -m tests.benchmarks [ROW ...]`."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.benchmarks.abuse import ABUSE_ROWS
from tests.benchmarks.admission import ADMISSION_ROWS
from tests.benchmarks.checksums import CHECKSUM_ROWS
from tests.benchmarks.clusters import CLUSTER_ROWS
from tests.benchmarks.commits import COMMIT_ROWS
from tests.benchmarks.crds import CRD_ROWS
from tests.benchmarks.deletions import DELETION_ROWS
from tests.benchmarks.expressions import EXPRESSION_ROWS
from tests.benchmarks.grants import GRANT_ROWS
from tests.benchmarks.informers import INFORMER_ROWS
from tests.benchmarks.layers import LAYER_ROWS
from tests.benchmarks.lists import LIST_ROWS
from tests.benchmarks.packages import PACKAGE_ROWS
from tests.benchmarks.permissions import PERMISSION_ROWS
from tests.benchmarks.policies import POLICY_ROWS
from tests.benchmarks.processes import LOAD_CORE
from tests.benchmarks.proxies import PROXY_ROWS
from tests.benchmarks.quotas import QUOTA_ROWS
from tests.benchmarks.requests import REQUEST_ROWS
from tests.benchmarks.resting import RESTING_ROWS
from tests.benchmarks.row import Row
from tests.benchmarks.starting import START_ROWS
from tests.benchmarks.stores import STORE_ROWS
from tests.benchmarks.testservers import TEST_SERVER_ROWS
from tests.benchmarks.tokens import TOKEN_ROWS
from tests.benchmarks.types import TYPE_ROWS
from tests.benchmarks.watches import WATCH_ROWS
from tests.benchmarks.webhooks import WEBHOOK_ROWS
from tests.benchmarks.workers import WORKER_ROWS

GROUPS: Final[tuple[Mapping[str, Callable[[Path], AsyncIterator[Row]]], ...]] = (
    REQUEST_ROWS,
    COMMIT_ROWS,
    STORE_ROWS,
    LIST_ROWS,
    TYPE_ROWS,
    WATCH_ROWS,
    CLUSTER_ROWS,
    RESTING_ROWS,
    START_ROWS,
    EXPRESSION_ROWS,
    CRD_ROWS,
    DELETION_ROWS,
    CHECKSUM_ROWS,
    ABUSE_ROWS,
    PERMISSION_ROWS,
    TOKEN_ROWS,
    GRANT_ROWS,
    QUOTA_ROWS,
    ADMISSION_ROWS,
    LAYER_ROWS,
    POLICY_ROWS,
    WEBHOOK_ROWS,
    TEST_SERVER_ROWS,
    PACKAGE_ROWS,
    INFORMER_ROWS,
    PROXY_ROWS,
    WORKER_ROWS,
)
ROWS = dict(chain.from_iterable(group.items() for group in GROUPS))


async def _run(names: list[str], console: Console) -> None:
    table = Table("work", "ours", "bare", "ratio", "to reach", "more")
    with tempfile.TemporaryDirectory(prefix="kcp-py-bench-") as directory:
        for name in names:
            console.print(f"[dim]{name} …[/dim]")
            async for row in ROWS[name](Path(directory)):
                console.print(f"[dim]  {row.work}: {row.ours} / {row.bare} {row.ratio} ({row.percentiles})[/dim]")
                table.add_row(row.work, row.ours, row.bare, row.ratio, row.wanted, row.percentiles)
    console.print(table)


def main() -> None:
    """Parse, pin, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows: {', '.join(ROWS)} (default: all)")
    names = parser.parse_args().rows or list(ROWS)
    if unknown := set(names) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65_536), hard))
    os.sched_setaffinity(0, {LOAD_CORE})
    import uvloop

    uvloop.run(_run(names, Console(width=160 if not sys.stdout.isatty() else None)))


if __name__ == "__main__":
    main()
