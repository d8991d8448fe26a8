"""Derive how Go encodes the fields of the built-in and the upstream kinds: kcp_py/bootstrap/go_fields.json and upstream/go_fields.json.

The source is the Go types themselves (k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver, k8s.io/kube-aggregator, in the
versions of hack/go_fields/go.mod), read with reflection by the program in hack/go_fields: the published schemas do not contain which fields
the encoder omits. Run it from the repository's root; it needs a Go toolchain. The output is deterministic, one structure a line.

`structures` maps the name of a definition to the name of its Go type (`go`) and its `fields`. A field is `TYPE`, which the encoder always
writes, `TYPE?`, which it leaves out where it is empty (`omitempty`), or `TYPE!`, a structure that it leaves out where all of it is zero
(`omitzero`). TYPE is one of

- `string`, `bool`, `int32`, …, with the name of the Go type where it has one of its own: `string:v1.PodPhase`
- `bytes`: base64
- `any`: left as it is
- `*TYPE`: a pointer, of which null is the only zero value
- `[]TYPE`, `{}TYPE`: a list, a map; the name of the Go type stands in the brackets where it does not follow from that of the elements
- `=NAME`: a type with an encoding of its own, listed in `values` with the name of its Go type and its zero value
- the name of another structure
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

BOOTSTRAP = Path("kcp_py/bootstrap")
PROGRAM = Path("hack/go_fields")

SUBRESOURCES = [{"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}]
"""Kinds that are those of subresources alone."""


def describe(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """What the program prints of some kinds."""
    asked = json.dumps([{name: kind[name] for name in ("group", "version", "kind")} for kind in kinds])
    done = subprocess.run(["go", "run", "."], cwd=PROGRAM, input=asked.encode(), stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def write(path: Path, output: dict[str, Any]) -> None:
    """One structure a line."""
    lines = [f"{json.dumps(name)}:{compact(structure)}" for name, structure in sorted(output["structures"].items())]
    path.write_text(f'{{"values":{compact(output["values"])},\n"structures":{{\n' + ",\n".join(lines) + "\n}}\n")
    print(path)


def compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    builtin = [row for row in json.loads((BOOTSTRAP / "kinds.json").read_text()) if not row["group"].endswith("kcp.io")]
    known = json.loads((BOOTSTRAP / "upstream" / "kinds.json").read_text())
    first, rest = describe(builtin + SUBRESOURCES), describe(known)
    for name in first["structures"].keys() & rest["structures"].keys():
        del rest["structures"][name]
    write(BOOTSTRAP / "go_fields.json", first)
    write(BOOTSTRAP / "upstream" / "go_fields.json", rest)


if __name__ == "__main__":
    main()
