"""Write docs/corpus.md: the results of a control plane with the corpus of real definitions and objects, if this machine has the corpus.

python hack/update_corpus_table.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.controlplane.corpus_exceptions import reason_of  # noqa: E402
from tests.controlplane.corpus_judgement import Judgement, control_plane, judge  # noqa: E402
from tests.corpus import CORPUS  # noqa: E402

TABLE = ROOT / "docs" / "corpus.md"

INTRODUCTION = """\
# The corpus

<!-- Written by hack/update_corpus_table.py where the corpus is present. -->

Real CustomResourceDefinitions and real objects, gathered from public repositories, are created through a whole control plane: each
definition alone in a cluster of its own, all together in one, objects in every version that is served. Below is how many of them are
judged as their labels say, and why the others are not. `tests/controlplane/test_corpus.py` fails for any file that differs for no known
reason.

Where a definition names a conversion webhook, its objects are tried with the strategy `None`.
"""


def render(judgement: Judgement) -> str:
    """The whole document."""
    parts = [INTRODUCTION, "\n| check | as labelled | otherwise |\n|---|---|---|\n"]
    checks = sorted(judgement.agreed.keys() | judgement.exceptions.keys())
    parts += [f"| {check} | {judgement.agreed[check]} | {len(judgement.exceptions.get(check, ()))} |\n" for check in checks]
    parts.append("\n## Exceptions\n\n| check | files | reason |\n|---|---|---|\n")
    for check in checks:
        by_reason: dict[str, list[str]] = {}
        for path in judgement.exceptions.get(check, ()):
            by_reason.setdefault(reason_of(check, path) or "unknown", []).append(path.partition("/")[2])
        for reason, paths in by_reason.items():
            files = "<br>".join(f"`{path}`" for path in sorted(paths))
            parts.append(f"| {check} | {files} | {reason} |\n")
    return "".join(parts)


async def _judge() -> Judgement:
    with tempfile.TemporaryDirectory() as folder:
        async with control_plane(Path(folder)) as api:
            return await judge(api)


def current() -> str | None:
    """The document as it should be; None where there is no corpus."""
    return None if CORPUS is None else render(asyncio.run(_judge()))


if __name__ == "__main__":
    document = current()
    if document is None:
        print("the corpus of real definitions is not on this machine: docs/corpus.md stays as it is")
    else:
        TABLE.write_text(document, "utf-8")
