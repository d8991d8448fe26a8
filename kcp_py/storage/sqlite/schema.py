"""The tables, and the identification of a database file.

`seq` is `revision << 10 | ordinal of the operation in its transaction`: it names a write, orders all writes, and is the row id of the two
tables that only grow at their end, so that a write dirties one page of `current` (at its key's place) and the last pages of the others.

* `current`: the keys that exist, with the write of their value. It contains no old rows, so a range reads exactly the rows that it returns.
* `value`: the bytes of a write, stored once; kept until the write is overwritten and the overwriting is compacted.
* `history`: every write since the last compaction, with the write that it replaced (`previous`, 0 for none). `create_revision` is that of
  the key's life to which the write belongs, also for the write that ends it (`deleted`). So an event needs its own row and two values, and
  the state at an old revision is the current state with the first later write of each key undone.
* `meta`: `compact_revision`. Rows of `history` at or before it are removed in slices and no longer read.

The store's revision is that of the newest `history` row, or `compact_revision` if there is none.
"""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x6B637079
"""`kcpy`."""

FORMAT: Final = 2
"""`PRAGMA user_version`; raised when an older program could not use the file.

Format 1 had the same tables, in pages without checksums. Earlier programs would write pages without checksums.
"""
CHECKED_FORMAT: Final = 2
"""The first format whose pages have checksums."""

ORDINAL_BITS: Final = 10
ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1

CREATE: Final = f"""
PRAGMA page_size = 4096;
BEGIN;
CREATE TABLE current (key TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, create_revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE value (seq INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE history (
  seq INTEGER PRIMARY KEY, key TEXT NOT NULL, previous INTEGER NOT NULL, create_revision INTEGER NOT NULL, deleted INTEGER NOT NULL
);
CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('compact_revision', 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""  # noqa: S608 - made of constants


def last_seq(revision: int) -> int:
    """The greatest `seq` that a write of `revision` can have."""
    return revision << ORDINAL_BITS | ORDINAL_MASK


def key_bounds(prefix: str, start: str = "") -> tuple[str, str | bytes]:
    """The bounds (inclusive, exclusive) of the keys that begin with `prefix` and are not smaller than `start`.

    The upper bound is a blob if no text is greater: in SQLite every blob is greater than every text.
    """
    upper = prefix.rstrip("\U0010ffff")
    if not upper:
        return max(prefix, start), b""
    following = ord(upper[-1]) + 1
    return max(prefix, start), upper[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates cannot be stored
