"""Write docs/corpus.md: the results of a control plane with the corpus of real definitions and objects, if this machine has the corpus.

`tests/controlplane/test_corpus.py` checks that the file is up to date.

python hack/update_corpus_table.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.controlplane.corpus_judgement import Judgement, control_plane, judge  # noqa: E402
from tests.controlplane.corpus_table import TABLE, render  # noqa: E402
from tests.corpus import CORPUS  # noqa: E402


async def _judge() -> Judgement:
    with tempfile.TemporaryDirectory() as folder:
        async with control_plane(Path(folder)) as api:
            return await judge(api)


if __name__ == "__main__":
    if CORPUS is None:
        print("the corpus of real definitions is not on this machine: docs/corpus.md stays as it is")
    else:
        TABLE.write_text(render(asyncio.run(_judge())), "utf-8")
