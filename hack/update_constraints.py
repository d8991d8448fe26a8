"""Write constraints.txt: the installed version of every package that kcp-py needs with all its extras.

python hack/update_constraints.py
"""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# The versions that kcp-py is developed and tested with. Written by hack/update_constraints.py.\n"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    versions: dict[str, str] = {}
    for line in wanted:
        _collect(Requirement(line), versions)
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    (ROOT / "constraints.txt").write_text(HEADER + "".join(lines), "utf-8")


def _collect(requirement: Requirement, versions: dict[str, str]) -> None:
    name = canonicalize_name(requirement.name)
    if name in versions:
        return
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        # Only needed on other platforms or Python versions, where pip installs the newest version.
        return
    versions[name] = distribution.version
    for line in distribution.requires or []:
        dependency = Requirement(line)
        if dependency.marker is None or any(dependency.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            _collect(dependency, versions)


if __name__ == "__main__":
    main()
