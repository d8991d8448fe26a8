"""Seed a store with very many logical clusters, and measure a server on it.

  make fleet N=10000                                  10,000 clusters with ten small CRDs and ten objects each, in a temporary directory
  make fleet N=1000000 FLEET_ARGS="--directory DIR"   keep the store, and continue an interrupted seeding (28 KB of disk for each cluster)
  make fleet N=100000 FLEET_ARGS=--realistic          CRDs with five fields and printer columns, objects of 1 KB
  make fleet N=10000000 CRDS=0 OBJECTS=0              empty clusters (1 KB of disk for each)
  python -m tests.fleet 1000000 --directory DIR --seconds 300   seed for five minutes, and measure nothing unless all clusters exist

The store is filled in steps. After each step some clusters are created by requests, which shows whether their rate falls with the number
of clusters, and the whole is measured at the last step.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.benchmarks.processes import LOAD_CORE, Process, kcp
from tests.fleet import measuring
from tests.fleet.content import Content, create_clusters
from tests.fleet.measuring import Row
from tests.fleet.seeding import TEMPLATE, cluster_name, seed

_REPORT_SECONDS = 10.0
_MOST_CREATED = 500
_RECORDED_SECONDS = 6.0
"""After so long the index of CRDs is in the store."""
_PARTS = ("rest", "create", "touch", "pages", "watch", "discovery", "list")


@dataclass(frozen=True)
class Fleet:
    """What to seed and measure."""

    root: Path
    count: int
    content: Content
    created: int
    """Clusters that are created by requests after each step."""
    steps: tuple[int, ...]
    """Percent of the clusters."""
    deadline: float
    parts: frozenset[str]
    """Names of measurements. With none the store is only seeded."""

    @property
    def probe(self) -> str:
        """The object that the client reads that measures how long others wait."""
        if self.content.crds and self.content.objects:
            return f"{self.content.path(TEMPLATE, 0)}/o0"
        return f"/clusters/{TEMPLATE}/api/v1/namespaces/default"


class Progress:
    """A line every few seconds: how many clusters there are, how fast they come, and when all are there."""

    def __init__(self, fleet: Fleet, wanted: int) -> None:
        self._fleet = fleet
        self._wanted = wanted
        self._begun: tuple[float, int] | None = None
        self._told = (time.monotonic(), 0)

    def __call__(self, number: int) -> None:
        now = time.monotonic()
        if self._begun is None:
            self._begun = self._told = now, number
        if now - self._told[0] < _REPORT_SECONDS and number < self._wanted:
            return
        rate = (number - self._told[1]) / max(now - self._told[0], 1e-3)
        mean = (number - self._begun[1]) / max(now - self._begun[0], 1e-3)
        size = (self._fleet.root / "kcp.db").stat().st_size
        left = (self._wanted - number) / mean if mean else 0
        self._told = now, number
        print(f"  {number:>10,} of {self._wanted:,} clusters, {rate:,.0f}/s, {size / 1e9:.2f} GB, {left / 60:.0f} min left", flush=True)


def show(rows: list[Row]) -> None:
    """Print figures as they come."""
    for work, figure in rows:
        print(f"  {work}: {figure}", flush=True)


async def run_fleet(fleet: Fleet) -> bool:
    """Seed and measure. Returns whether all clusters exist."""
    if not (fleet.root / "kcp.db").exists():
        with kcp(fleet.root) as ours:
            await create_clusters(ours.target, [TEMPLATE], fleet.content)
            await asyncio.sleep(1)
    for percent in fleet.steps:
        wanted = fleet.count * percent // 100
        print(f"{percent} %: {wanted:,} clusters", flush=True)
        number = await seed(fleet.root / "kcp.db", wanted, progress=Progress(fleet, wanted), deadline=fleet.deadline)
        if number < wanted:
            print(f"  interrupted at {number:,} clusters; the same command continues", flush=True)
            return False
        if fleet.parts:
            await _measure(fleet, wanted, percent)
    return True


async def _measure(fleet: Fleet, seeded: int, percent: int) -> None:
    content, random = fleet.content, Random(percent)
    last = percent == fleet.steps[-1]
    measuring.forget_pages(fleet.root)
    show([("files", measuring.megabytes(sum(path.stat().st_size for path in fleet.root.glob("kcp.db*"))))])
    start = time.perf_counter()
    # A list of a million objects without a limit takes longer than the default.
    with kcp(fleet.root, "--request-timeout", "1h") as ours:
        await ours.target.one("GET", fleet.probe)
        answered = time.perf_counter() - start
        show([("start, files not in memory", f"ready {ours.seconds_to_ready:.2f} s, first GET answered {answered:.2f} s")])
        if "rest" in fleet.parts:
            show(await measuring.at_rest(ours))
        if "create" in fleet.parts:
            # Their names are spread over those that exist. The second time the pages around them have been read.
            places = [f"{cluster_name(random.randrange(max(seeded, 1)))}-{percent}-{number}" for number in range(fleet.created)]
            names = [f"{place}-{time.time_ns()}" for place in places]
            show(await measuring.creation(ours, names, content))
            again = [f"{name}-b" for name in names]
            show([(f"{work}, again", figure) for work, figure in await measuring.creation(ours, again, content)])
            show([("resident after these", measuring.megabytes(ours.resident))])
            if last:
                show(await measuring.deletion(ours, [*names, *again], fleet.probe))
        if last and seeded:
            await _measure_all(fleet, ours, seeded, random=random)
            show([("resident at the end", measuring.megabytes(ours.resident))])
            if "discovery" in fleet.parts:
                await asyncio.sleep(_RECORDED_SECONDS)
    if last and seeded and "discovery" in fleet.parts:
        measuring.forget_pages(fleet.root)
        with kcp(fleet.root) as ours:
            show([(f"{work}, after the next start", figure) for work, figure in await measuring.discovery(ours, fleet.probe)])


async def _measure_all(fleet: Fleet, ours: Process, seeded: int, *, random: Random) -> None:
    content, parts = fleet.content, fleet.parts
    if "touch" in parts:
        show(await measuring.touch(ours, measuring.sample(random, seeded, 1_000, cluster_name), content))
    if "pages" in parts and content.crds:
        show(await measuring.pages(ours, content, fleet.probe))
    if "watch" in parts and content.crds:
        show(await measuring.watch(ours, content, measuring.sample(random, seeded, 1_000, cluster_name)))
    if "discovery" in parts:
        show(await measuring.discovery(ours, fleet.probe))
    if "list" in parts:
        path = content.path("*", 0) if content.crds else "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"
        show(await measuring.whole_list(ours, path, fleet.probe))


def main() -> int:
    """Parse and run; 1 where not all clusters exist yet."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clusters", type=int, metavar="N", help="how many clusters to seed")
    parser.add_argument("--crds", type=int, default=10, help="CRDs of each cluster (10)")
    parser.add_argument("--objects", type=int, default=10, help="objects of each cluster, spread over its CRDs (10)")
    parser.add_argument("--realistic", action="store_true", help="CRDs and objects of ordinary size")
    parser.add_argument("--directory", type=Path, help="root directory of the server; kept, and continued (default: a temporary one)")
    parser.add_argument("--created", type=int, help="clusters that are created by requests after each step (a tenth of N, at most 500)")
    parser.add_argument("--steps", default="0,25,50,100", help="percent of the clusters after which requests are measured (0,25,50,100)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seed for so long at most; the same command continues")
    parser.add_argument("--parts", default=",".join(_PARTS), help=f"what is measured, empty for nothing ({','.join(_PARTS)})")
    arguments = parser.parse_args()
    content = Content(arguments.crds, arguments.objects, arguments.realistic)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65_536), hard))
    os.sched_setaffinity(0, {LOAD_CORE})
    # The server ends with this program, however that is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kcp-py-fleet-") as temporary:
        root = arguments.directory or Path(temporary) / "root"
        root.parent.mkdir(parents=True, exist_ok=True)
        steps = tuple(int(step) for step in arguments.steps.split(","))
        deadline = time.monotonic() + arguments.seconds
        parts = frozenset(arguments.parts.split(",")) - {""}
        if unknown := parts - set(_PARTS):
            parser.error(f"no such part: {', '.join(sorted(unknown))}")
        created = arguments.created or max(1, min(_MOST_CREATED, arguments.clusters // 10))
        fleet = Fleet(root, arguments.clusters, content, created, steps, deadline, parts)
        try:
            return 0 if asyncio.run(run_fleet(fleet)) else 1
        except KeyboardInterrupt:
            print("interrupted" + ("; the same command continues" if arguments.directory else ""), file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())
