"""Check that docs/corpus.md is what hack/update_corpus_table.py would write; without the corpus the check is skipped."""

from __future__ import annotations

import sys

from update_corpus_table import TABLE, current

document = current()
if document is None:
    print("docs/corpus.md is not checked: the corpus of real definitions is not on this machine")
elif not TABLE.exists() or TABLE.read_text("utf-8") != document:
    sys.exit("docs/corpus.md does not match what the server says: run `make update`")
