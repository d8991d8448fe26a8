"""The entry points of YAML."""

from __future__ import annotations

import subprocess
import sys

from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml, decode_yaml_strict, encode_yaml


def test_documents_survive_encoding():
    """An object is written as YAML with sorted keys, and read back as it was."""
    obj = {"kind": "Widget", "apiVersion": "example.com/v1", "spec": {"list": [1, "a", None, True]}}
    assert encode_yaml(obj) == b"apiVersion: example.com/v1\nkind: Widget\nspec:\n  list:\n  - 1\n  - a\n  - null\n  - true\n"
    assert decode_yaml(encode_yaml(obj)) == obj


def test_repeated_keys_are_reported():
    """The last value counts; strict decoding lists the key."""
    assert decode_yaml(b"a: 1\na: 2\n") == {"a": 2}
    value, errors = decode_yaml_strict(b"a: 1\na: 2\n")
    assert value == {"a": 2}
    assert len(errors) == 1
    assert '"a" already set in map' in errors[0]


def test_the_parser_is_loaded_at_the_first_use():
    """Importing the entry points does not import PyYAML, which takes long to load."""
    code = "import sys, kcp_py.apimachinery.serializer.yaml.codec; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
