"""`AdmissionConfiguration`: the file of `--admission-control-config-file` with the configurations of plugins.

A fault of the file, or of the configuration of a plugin that is on, keeps the server from starting.

Source: k8s.io/apiserver `pkg/admission/config.go`, `pkg/apis/apiserver/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.golang.quoting import go_quote
from kcp_py.options import OptionsError

FLAG: Final = "--admission-control-config-file"
CONFIGURABLE: Final = frozenset({"EventRateLimit", "PodNodeSelector", "PodSecurity", "PodTolerationRestriction", "ResourceQuota"})
"""The plugins that read a configuration. One of another plugin would have no effect, and is refused."""

_GROUP: Final = "apiserver.config.k8s.io"
_KIND: Final = "AdmissionConfiguration"

Shape = Any
"""The type of a value: `str`, `int`, `ANY`, `[shape]` for a list, a mapping from the fields of an object to their shapes."""
ANY: Final[Shape] = object
_SHAPE: Final[Shape] = {"plugins": [{"name": str, "path": str, "configuration": ANY}]}


class Document(NamedTuple):
    """The configuration of a plugin as it stands in a file."""

    origin: str
    """Of the text of an error: the file, and the plugin where the configuration is embedded."""
    content: Any
    """Decoded. None for an empty file."""
    repeated: Sequence[str] = ()
    """The problems of fields that are given twice."""


class AdmissionConfiguration:
    """The configurations of plugins by their names; of several for one plugin the first counts, as upstream."""

    def __init__(self, documents: Mapping[str, Document | Path] | None = None) -> None:
        """Make it from configurations and from files, which are read when their plugin asks."""
        self._documents: Final = dict(documents or {})

    def of(self, plugin: str) -> Document | None:
        """The configuration of a plugin, if there is one.

        Raises:
            OptionsError: its file cannot be read.
        """
        found = self._documents.get(plugin)
        return _read(found) if isinstance(found, Path) else found


def read_admission_configuration(path: Path | None) -> AdmissionConfiguration:
    """Read the file. Without one no plugin is configured.

    Raises:
        OptionsError: the file cannot be read, is not an AdmissionConfiguration, or configures a plugin that has no configuration here.
    """
    if path is None:
        return AdmissionConfiguration()
    document = _read(path)
    fields = read_fields(document, (f"{_GROUP}/v1", f"{_GROUP}/v1alpha1"), _KIND, _SHAPE, strict=True)
    found: dict[str, Document | Path] = {}
    for index, plugin in enumerate(fields.get("plugins") or ()):
        name = (plugin or {}).get("name") or ""
        if name not in CONFIGURABLE:
            raise _problem(document, f"plugins[{index}].name: {go_quote(name)}: only {', '.join(sorted(CONFIGURABLE))} can be configured")
        if plugin.get("configuration") is not None:
            found.setdefault(name, Document(f"{path}: {name}", plugin["configuration"]))
        elif plugin.get("path"):
            # Relative to the folder of the file.
            found.setdefault(name, path.parent / plugin["path"])
    return AdmissionConfiguration(found)


def read_fields(document: Document, versions: Sequence[str], kind: str, shape: Mapping[str, Shape], *, strict: bool) -> Mapping[str, Any]:
    """The fields of a configuration, checked. Null stands for a field that is not given.

    Args:
        document: the configuration.
        versions: the values of `apiVersion` that are known. All have the same fields.
        kind: the value of `kind`.
        shape: the types of the fields.
        strict: whether fields that are unknown or given twice are faults.

    Raises:
        OptionsError: it is of another kind, or has fields of wrong types.
    """
    given = document.content
    if not isinstance(given, dict):
        raise _problem(document, "the document is not an object")
    for name in ("kind", "apiVersion"):
        if not given.get(name):
            raise _problem(document, f"Object '{name.capitalize() if name == 'kind' else name}' is missing")
    if given["kind"] != kind or given["apiVersion"] not in versions:
        raise _problem(document, f"no kind {go_quote(str(given['kind']))} is registered for version {go_quote(str(given['apiVersion']))}")
    wrong: list[str] = []
    unknown: list[str] = []
    _check(given, {"apiVersion": str, "kind": str, **shape}, "", wrong, unknown)
    if wrong:
        raise _problem(document, ", ".join(wrong))
    if strict and (problems := [*document.repeated, *unknown]):
        raise _problem(document, f"strict decoding error: {', '.join(problems)}")
    return given


def _check(value: Any, shape: Shape, path: str, wrong: list[str], unknown: list[str]) -> None:
    if value is None or shape is ANY:
        return
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            wrong.append(f"{path} is not an object")
            return
        for name, one in value.items():
            place = f"{path}.{name}" if path else str(name)
            if name in shape:
                _check(one, shape[name], place, wrong, unknown)
            else:
                unknown.append(f"unknown field {go_quote(place)}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            wrong.append(f"{path} is not a list")
            return
        for index, one in enumerate(value):
            _check(one, shape[0], f"{path}[{index}]", wrong, unknown)
    elif not isinstance(value, shape) or isinstance(value, bool):
        wrong.append(f"{path} is not {'a string' if shape is str else 'a whole number'}")


def _read(path: Path) -> Document:
    # YAML is slow to import, and needed only with such a file.
    from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict  # noqa: PLC0415

    try:
        content, repeated = decode_yaml_strict(path.read_bytes())
    except OSError as error:
        raise OptionsError(f"{FLAG}: {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise OptionsError(f"{FLAG}: {path}: {error}") from None
    return Document(str(path), content, repeated)


def _problem(document: Document, text: str) -> OptionsError:
    return OptionsError(f"{FLAG}: {document.origin}: {text}")
