"""Check that the docstring of every package states its rule of membership and that tests/ mirrors kcp_py/.

python hack/verify_packages.py
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kcp_py"
SHORTEST_RULE = 40


def main() -> None:
    wrong = []
    for folder in sorted({module.parent for module in PACKAGE.rglob("*.py")}):
        name = folder.relative_to(ROOT)
        start = folder / "__init__.py"
        if not start.exists():
            wrong.append(f"{name}: no __init__.py")
        elif len(ast.get_docstring(ast.parse(start.read_text("utf-8"))) or "") < SHORTEST_RULE:
            wrong.append(f"{name}/__init__.py: does not open with what belongs in the package and what does not")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
