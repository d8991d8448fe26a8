"""Look for inputs that hurt, for as long as there is time.

  python -m tests.fuzz                          every parser and handler, two seconds each
  python -m tests.fuzz --seconds 600            ten minutes in all, shared equally
  python -m tests.fuzz --seconds 60 yaml cel    a minute for these two
  python -m tests.fuzz --random-seed 7 yaml     the inputs of an earlier run again
  python -m tests.fuzz yaml --input TEXT        one input, as a failure was printed; a long one is in a file: @FILE

A failure is printed with the command that repeats it, made as small as it gets within a few seconds, and makes the exit code 1. What
it shows, once fixed, becomes a named test among the other tests of its module.
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import hashlib
import secrets
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz import TARGETS
from tests.fuzz.target import Target

STALL_SECONDS = 0.05
"""What the event loop may be held for. A single input that takes longer is told, with no failure: machines are busy."""
HANG_SECONDS = 20
MEMORY_BASE = 32 * 1024 * 1024
MEMORY_PER_BYTE = 2000
"""What an input may make the memory grow by, for a moment."""
MEASURED_EVERY = 20
"""Memory is measured for one input of so many: it takes long."""
SHRINK_SECONDS = 5.0
LONG_BYTES = 200
"""Longer inputs are not printed."""


class HangError(Exception):
    """An input took longer than `HANG_SECONDS`."""


@dataclass
class Outcome:
    """What a run of one target found."""

    inputs: int = 0
    slowest: list[tuple[float, bytes]] = field(default_factory=list)
    most_memory: int = 0
    failure: tuple[bytes, BaseException] | None = None


def main() -> int:
    """Parse, run, report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, help="in all (default: 2 for each target)")
    parser.add_argument("--random-seed", type=int, help="of an earlier run, which printed it")
    parser.add_argument("--input", metavar="TEXT", help="run only this one, as it was printed")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen = [TARGETS[name] for name in arguments.targets or TARGETS]
    if arguments.input is not None:
        for target in chosen:
            given = arguments.input
            target.check(Path(given[1:]).read_bytes() if given.startswith("@") else base64.urlsafe_b64decode(given))
        print("holds")
        return 0
    faulthandler.enable()
    signal.signal(signal.SIGALRM, _hang)
    number = secrets.randbits(32) if arguments.random_seed is None else arguments.random_seed
    print(f"random seed {number}")
    seconds = (arguments.seconds or 2.0 * len(chosen)) / len(chosen)
    return 1 if [target for target in chosen if _report(target, _run(target, Random(f"{number} {target.name}"), seconds))] else 0


def _hang(_signal: int, _frame: FrameType | None) -> None:
    raise HangError(f"no end after {HANG_SECONDS} s")


def _run(target: Target, random: Random, seconds: float) -> Outcome:
    outcome = Outcome()
    for seed in target.seeds:
        target.run(seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until and outcome.failure is None:
        data = target.make(random)
        outcome.inputs += 1
        measured = outcome.inputs % MEASURED_EVERY == 0
        try:
            if measured:
                outcome.most_memory = max(outcome.most_memory, _memory(target, data))
            else:
                _timed(target, data, outcome)
        except Exception as error:  # noqa: BLE001 - any is a failure
            outcome.failure = _smaller(target, data, error), error
    return outcome


def _guarded(target: Target, data: bytes) -> None:
    signal.alarm(HANG_SECONDS)
    try:
        target.check(data)
    finally:
        signal.alarm(0)


def _timed(target: Target, data: bytes, outcome: Outcome) -> None:
    began = time.perf_counter()
    _guarded(target, data)
    outcome.slowest = sorted([*outcome.slowest, (time.perf_counter() - began, data)], key=lambda one: -one[0])[:3]


def _memory(target: Target, data: bytes) -> int:
    """Bytes that the input makes the memory grow by."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        _guarded(target, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = MEMORY_BASE + MEMORY_PER_BYTE * len(data)
    assert peak - before <= allowed, f"{peak - before} bytes of memory for {len(data)} bytes, more than {allowed}"
    return peak - before


def _smaller(target: Target, data: bytes, error: BaseException) -> bytes:
    """The input without the parts that it fails without in the same way."""
    if isinstance(error, HangError):
        return data
    until = time.monotonic() + SHRINK_SECONDS
    size = max(1, len(data) // 2)
    while size and time.monotonic() < until:
        at = 0
        while at < len(data) and time.monotonic() < until:
            shorter = data[:at] + data[at + size :]
            if _fails_alike(target, shorter, error):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _fails_alike(target: Target, data: bytes, error: BaseException) -> bool:
    try:
        _guarded(target, data)
    except Exception as other:  # noqa: BLE001 - compared
        return type(other) is type(error) and _place(other) == _place(error)
    return False


def _place(error: BaseException) -> tuple[str, int | None]:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename, last.lineno


def _report(target: Target, outcome: Outcome) -> bool:
    """Print the findings. Returns whether they are failures."""
    took = ", ".join(f"{seconds * 1000:.0f}" for seconds, _ in outcome.slowest)
    print(
        f"{target.name:22} {outcome.inputs:8} inputs   slowest {took} ms (counted)   memory {outcome.most_memory / 1e6:.1f} MB", flush=True
    )
    for seconds, data in outcome.slowest:
        if seconds > STALL_SECONDS:
            # Counting calls makes everything several times slower.
            print(f"  {_plainly(target, data) * 1000:.0f} ms for {len(data)} bytes: {_command(target, data)}")
    if outcome.failure is None:
        return False
    data, error = outcome.failure
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    print(f"  FAILED: {error.__class__.__name__}: {str(error)[:1000]}\n  {data[:200]!r}\n  again: {_command(target, data)}", flush=True)
    return True


def _plainly(target: Target, data: bytes) -> float:
    began = time.perf_counter()
    target.run(data)
    return time.perf_counter() - began


def _command(target: Target, data: bytes) -> str:
    if len(data) <= LONG_BYTES:
        return f"python -m tests.fuzz {target.name} --input {base64.urlsafe_b64encode(data).decode()}"
    file = Path(tempfile.gettempdir()) / f"kcp-py-fuzz-{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return f"python -m tests.fuzz {target.name} --input @{file}"


if __name__ == "__main__":
    sys.exit(main())
