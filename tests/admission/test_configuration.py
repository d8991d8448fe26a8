"""The file of --admission-control-config-file, and what keeps a server from starting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcp_py.admission.configuration import read_admission_configuration, read_fields
from kcp_py.options import OptionsError

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
SHAPE = {"limits": [{"type": str, "qps": int}], "name": str}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_no_file_configures_nothing() -> None:
    """As with a kube-apiserver without the flag."""
    assert read_admission_configuration(None).of("EventRateLimit") is None


def test_configurations_are_embedded_or_in_files_of_their_own(tmp_path: Path) -> None:
    """A path is relative to the folder of the file, an embedded configuration comes first, and so does the first of several."""
    write(tmp_path / "own.yaml", "kind: Own")
    plugin = "- {name: EventRateLimit, path: own.yaml"
    found = read_admission_configuration(write(tmp_path / "a.yaml", f"{HEAD}plugins:\n{plugin}}}")).of("EventRateLimit")
    assert found is not None
    assert (found.origin, found.content) == (str(tmp_path / "own.yaml"), {"kind": "Own"})
    both = f"{HEAD}plugins:\n{plugin}, configuration: {{kind: Inline}}}}\n{plugin}}}"
    found = read_admission_configuration(write(tmp_path / "b.yaml", both)).of("EventRateLimit")
    assert found is not None
    assert (found.origin, found.content) == (f"{tmp_path / 'b.yaml'}: EventRateLimit", {"kind": "Inline"})
    assert (
        read_admission_configuration(write(tmp_path / "c.yaml", f"{HEAD}plugins: [{{name: EventRateLimit}}]")).of("EventRateLimit") is None
    )


def test_a_file_that_no_plugin_asks_for_is_not_read(tmp_path: Path) -> None:
    """A plugin that is off needs no configuration. One that is on reports the path."""
    found = read_admission_configuration(write(tmp_path / "a.yaml", f"{HEAD}plugins: [{{name: EventRateLimit, path: none.yaml}}]"))
    with pytest.raises(OptionsError, match=r"none\.yaml: No such file or directory"):
        found.of("EventRateLimit")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the document is not an object"),
        ("[]", "the document is not an object"),
        ("{", "yaml"),
        ("apiVersion: apiserver.config.k8s.io/v1", "Object 'Kind' is missing"),
        ("kind: AdmissionConfiguration", "Object 'apiVersion' is missing"),
        ("apiVersion: v1\nkind: AdmissionConfiguration", 'no kind "AdmissionConfiguration" is registered for version "v1"'),
        (f"{HEAD}foo: 1", 'strict decoding error: unknown field "foo"'),
        (f"{HEAD}plugins: []\nplugins: []", "strict decoding error: "),
        (f"{HEAD}plugins: 1", "plugins is not a list"),
        (f"{HEAD}plugins: [1]", "plugins[0] is not an object"),
        (f"{HEAD}plugins: [{{name: 1}}]", "plugins[0].name is not a string"),
        (
            f"{HEAD}plugins: [{{name: ValidatingAdmissionWebhook}}]",
            'plugins[0].name: "ValidatingAdmissionWebhook": only EventRateLimit, PodNodeSelector, PodSecurity',
        ),
        (f"{HEAD}plugins: [null]", 'plugins[0].name: "": only EventRateLimit, PodNodeSelector, PodSecurity'),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The text names the option, the file and the place."""
    path = write(tmp_path / "a.yaml", text)
    with pytest.raises(OptionsError, match=re.escape(problem)) as refused:
        read_admission_configuration(path)
    assert str(refused.value).startswith(f"--admission-control-config-file: {path}: ")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    with pytest.raises(OptionsError, match="No such file or directory"):
        read_admission_configuration(tmp_path / "none.yaml")


def test_fields_have_types(tmp_path: Path) -> None:
    """Null stands for a field that is not given. An unknown field is a fault where the kind is decoded strictly."""
    text = f"{HEAD}plugins: [{{name: EventRateLimit, configuration: {{kind: K, apiVersion: g/v1, %s}}}}]"

    def fields(given: str, *, strict: bool) -> object:
        document = read_admission_configuration(write(tmp_path / "a.yaml", text % given)).of("EventRateLimit")
        assert document is not None
        return read_fields(document, ("g/v1",), "K", SHAPE, strict=strict)

    given = "name: null, limits: [{type: a, qps: 1}, null]"
    assert fields(given, strict=True) == {"kind": "K", "apiVersion": "g/v1", "name": None, "limits": [{"type": "a", "qps": 1}, None]}
    assert fields("more: 1", strict=False) == {"kind": "K", "apiVersion": "g/v1", "more": 1}
    with pytest.raises(OptionsError, match=r'unknown field "limits\[0\]\.more"'):
        fields("limits: [{more: 1}]", strict=True)
    for wrong in ("qps: true", "qps: a", "qps: 1.5"):
        with pytest.raises(OptionsError, match=r"limits\[0\]\.qps is not a whole number"):
            fields(f"limits: [{{{wrong}}}]", strict=False)
