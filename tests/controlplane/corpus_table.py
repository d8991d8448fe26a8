"""docs/corpus.md: the results of a control plane with the corpus, as a document."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.controlplane.corpus_exceptions import reason_of
from tests.controlplane.corpus_judgement import Judgement

TABLE: Final = Path(__file__).resolve().parents[2] / "docs" / "corpus.md"

_INTRODUCTION: Final = """\
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
    parts = [_INTRODUCTION, "\n| check | as labelled | otherwise |\n|---|---|---|\n"]
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
