"""The rows of `make bench`: their names, and their description in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks.__main__ import GROUPS, ROWS
from tests.benchmarks.packages import import_times

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def test_names_are_unique():
    """A row with the name of another one could not be run."""
    assert sum(len(group) for group in GROUPS) == len(ROWS)


def test_every_row_is_documented():
    """The page about performance describes each row."""
    table = PAGE.read_text("utf-8").partition("| rows | measured |\n")[2].partition("\n\n")[0]
    named = {word for line in table.splitlines() for word in re.findall(r"`([a-z-]+)…?`", line.split("|")[1])}
    assert named == {"abuse-" if name.startswith("abuse-") else name for name in ROWS}


def test_import_times_are_those_of_packages():
    """Modules of Python are together, and packages of kcp_py are also counted one by one."""
    profile = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        100 |   json.decoder\n"
        "import time:        20 |        120 | json\n"
        "import time:         7 |          7 |   kcp_py.options.kinds\n"
        "import time:         5 |         12 | kcp_py.options\n"
        "import time:         3 |          3 | kcp_py\n"
        "import time:         2 |          2 | yaml.reader\n"
    )
    packages, own = import_times(profile)
    assert packages == {"python": 120, "kcp_py": 15, "yaml": 2}
    assert own == {"options": 12, "kcp_py": 3}
