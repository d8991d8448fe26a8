"""Files and the documents in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.cli.exits import UsageError
from kcp_py.cli.manifests import elements, find_files, read_documents, split


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"# comment\n---\n\n---\n# more\n", [], id="comments"),
        pytest.param(b"a: 1\n", [1], id="one"),
        pytest.param(b"---\na: 1\n---\nb: 1\n", [1, 3], id="two"),
        pytest.param(b"a: 1\n--- # next\nb: 1\n---\n", [1, 2], id="comment behind the dashes"),
        pytest.param(b"a: 1\r\n---\r\nb: 1\r\n", [1, 2], id="lines of Windows"),
        pytest.param(b"%YAML 1.1\n---\na: 1\n", [2], id="directive"),
        pytest.param(b"a: |\n  ---\n  text\n---x: 1\n", [1], id="dashes that separate nothing"),
    ],
)
def test_split(content, wanted):
    """Each document has the line at which it begins; empty ones are left out."""
    assert [line for line, _ in split(content)] == wanted


def test_lines_are_those_of_the_file(tmp_path):
    """Fields of later documents, of JSON files and of elements of lists are found in the file."""
    file = tmp_path / "many.yaml"
    file.write_bytes(b"a: 1\n---\n# comment\nspec:\n  size: 1\n---\napiVersion: v1\nkind: List\nitems:\n- spec:\n    size: 1\n")
    first, second, third = read_documents(str(file))
    assert (first.line("a"), second.line("spec.size"), second.line("absent")) == (1, 5, 4)
    (element,) = elements(third, third.decode()[0])
    assert (element.line(""), element.line("spec.size")) == (10, 11)
    assert list(elements(first, first.decode()[0])) == [first]
    file = tmp_path / "one.json"
    file.write_bytes(b'\xef\xbb\xbf{\n "a": 1,\n "a": 2\n}\n')
    (only,) = read_documents(str(file))
    assert only.decode() == ({"a": 2}, ['duplicate field "a"'])
    assert only.line("a") == 3


def test_find_files(tmp_path):
    """Directories stand for the manifests in them, in order and without hidden folders; files and - for themselves."""
    for name in ("b.yml", "a.yaml", "c.json", "d.txt", "sub/e.yaml", ".git/f.yaml", "sub/.hidden.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = list(find_files(["-", str(tmp_path), str(tmp_path / "d.txt")]))
    assert found == ["-", *(str(tmp_path / name) for name in ("a.yaml", "b.yml", "c.json", "sub/e.yaml", "d.txt"))]
    for wrong in ("absent", ".git"):
        with pytest.raises(UsageError):
            list(find_files([str(tmp_path / wrong / "x")]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file in it ends with"):
        list(find_files([str(tmp_path / "empty")]))
    with pytest.raises(UsageError, match="Is a directory"):
        list(read_documents(str(tmp_path)))


def test_a_file_without_an_end_is_refused(monkeypatch):
    """A device that never ends is read up to the limit, as a file and as standard input."""
    with pytest.raises(UsageError, match="/dev/zero: larger than 64 MiB: split it"):
        list(read_documents("/dev/zero"))
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(UsageError, match="<stdin>: larger than 64 MiB: split it"):
            list(read_documents("-"))
