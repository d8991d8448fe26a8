"""From field paths to lines."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.yaml.positions import positions

DOCUMENT = b"""\
apiVersion: v1
metadata:
  annotations:
    example.com/x: y
    plain: z
spec:
  containers:
  - name: a
    ports:
    - containerPort: 80

    - containerPort: 81
  - {name: b, ports: []}
  properties:
    a.b:
      type: string
    a:
      b: c
    "k[0]":
      type: x
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("apiVersion", 1),
        ("metadata.annotations", 3),
        ("metadata.annotations[example.com/x]", 4),
        ("metadata.annotations.example.com/x", 4),
        ("spec.containers[0].name", 8),
        ("spec.containers[0].ports[1].containerPort", 12),
        ("spec.containers[1].name", 13),
        ("spec.properties[a.b].type", 16),
        ("spec.properties.a.b", 15),
        ("spec.properties[a].b", 18),
        ("spec.properties[k[0]].type", 20),
        pytest.param("spec.containers[0].image", 8, id="missing member"),
        pytest.param("spec.containers[7]", 7, id="missing element"),
        pytest.param("spec.replicas", 6, id="missing below a map"),
        pytest.param("spec.containers[x", 7, id="no path"),
        pytest.param("nothing.at.all", 1, id="nothing"),
    ],
)
def test_find(path: str, line: int) -> None:
    """A path leads to the line of its last key, or of the nearest parent that is there."""
    assert positions(DOCUMENT).find(path).line == line


def test_aliases_and_merges() -> None:
    """What an alias or a merge brings in is found where the alias stands, and its members where they are written."""
    document = b"base: &base\n  a: 1\n  b: 2\nuse: *base\nmerged:\n  <<: *base\n  b: 3\nmany:\n  <<: [*base, {c: 4}]\n"
    found = positions(document)
    assert found.find("use").line == 4
    assert found.find("use.a").line == 2
    assert found.find("merged.a").line == 2
    assert found.find("merged.b").line == 7
    assert found.find("many.c").line == 9


def test_json_and_what_is_neither() -> None:
    """JSON is read as YAML; anything unreadable has its first line."""
    assert positions(b'{\n "spec": {\n  "size": 1\n }\n}').find("spec.size").line == 3
    for broken in (b"a: [", b"\xff\xfe\x00", b"a: *unknown", b"? [a]: b", b"", b"- {a: b}: c"):
        assert positions(broken).find("a").line >= 1


def test_an_empty_value_at_the_end() -> None:
    """It has the last line of the document."""
    assert positions(b"---").find("").line == 1
    assert positions(b"a: 1\n---").find("b").line == 1


@given(st.binary(max_size=200), st.text(alphabet="ab.[]0/x", max_size=20))
@example(b"---", "")
def test_any_bytes_and_any_path(body: bytes, path: str) -> None:
    """No document and no path is an error, and every line is one of the document's."""
    line = positions(body).find(path).line
    assert 1 <= line <= max(1, body.count(b"\n") + body.count(b"\r") + body.count(b"\xc2\x85") + body.count(b"\xe2\x80") + 1)
