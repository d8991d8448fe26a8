"""Derive the protobuf tables of the built-in kinds that ship in kcp_py/bootstrap/protobuf.

Source: the Go modules `k8s.io/api`, `k8s.io/apimachinery` and `k8s.io/apiextensions-apiserver` (Apache-2.0). A small Go program
reflects over their types and prints what the struct tags say: `protobuf` has the numbers and wire types of `generated.proto`,
`json` the names, what is left out when empty and what is inlined. Served are the kinds of `kinds.json`, their lists, and the meta
kinds; what they reach follows.

Needs Go and the Go module proxy. Run it from the repository's root; the output is deterministic. One file per Go package:
message -> field number -> [JSON name, type, rule]. Types: `string`, `bytes`, `bool`, `int32`, `int64`, `double`, or the
name of a message; with `[]` before it for lists and `{}` for maps from strings. Rules: empty (the zero value is written in JSON), `omit`
(it is left out), `pointer` (left out when absent, zero values stay), `null` (null when absent).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

VERSION = "v0.37.2"
MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver")
KINDS = Path("kcp_py/bootstrap/kinds.json")
TARGET = Path("kcp_py/bootstrap/protobuf")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
META_KINDS = (
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
)

PROGRAM = r"""
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
IMPORTS
)

type marshaler interface{ Marshal() ([]byte, error) }

var messages = map[string]map[string][3]string{}

func name(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

var message = reflect.TypeOf((*marshaler)(nil)).Elem()

func scalar(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return t.Kind().String()
	case reflect.Float64:
		return "double"
	}
	panic(fmt.Sprintf("no wire type for %v", t))
}

func element(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(message) {
		walk(t)
		return name(t)
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return "bytes"
	}
	return scalar(t)
}

func walk(t reflect.Type) {
	if _, done := messages[name(t)]; done {
		return
	}
	fields := map[string][3]string{}
	messages[name(t)] = fields
	if t.Kind() != reflect.Struct {
		fields["1"] = [3]string{"items", "[]" + element(t.Elem()), "omit"}
		return
	}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		wire := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(wire) < 3 {
			continue
		}
		if _, err := strconv.Atoi(wire[1]); err != nil {
			panic(err)
		}
		tags := strings.Split(field.Tag.Get("json"), ",")
		jsonName := tags[0]
		if jsonName == "" && field.Anonymous {
			// Nested on the wire, inlined in JSON: no served kind has such a field, and the codec knows none.
			panic(fmt.Sprintf("inlined: %v.%s", t, field.Name))
		} else if jsonName == "" {
			jsonName = field.Name
		}
		omitEmpty, omitZero := false, false
		for _, option := range tags[1:] {
			omitEmpty = omitEmpty || option == "omitempty"
			omitZero = omitZero || option == "omitzero"
		}
		kind, prefix, rule := field.Type, "", ""
		pointer := kind.Kind() == reflect.Pointer
		if pointer {
			kind = kind.Elem()
		}
		isMessage := reflect.PointerTo(kind).Implements(message)
		if !isMessage && kind.Kind() == reflect.Map {
			if kind.Key().Kind() != reflect.String {
				panic(fmt.Sprintf("map with other keys: %v.%s", t, field.Name))
			}
			kind, prefix = kind.Elem(), "{}"
		} else if !isMessage && kind.Kind() == reflect.Slice && kind.Elem().Kind() != reflect.Uint8 {
			kind, prefix = kind.Elem(), "[]"
		}
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case pointer && omitEmpty:
			rule = "pointer"
		case pointer:
			rule = "null"
		case omitZero, omitEmpty && (!isMessage || kind.Kind() != reflect.Struct):
			rule = "omit"
		}
		fields[wire[1]] = [3]string{jsonName, prefix + element(kind), rule}
	}
}

func main() {
	for _, root := range []any{
ROOTS
	} {
		walk(reflect.TypeOf(root))
	}
	if err := json.NewEncoder(os.Stdout).Encode(messages); err != nil {
		panic(err)
	}
}
"""


def go_name(definition: str) -> tuple[str, str]:
    """The import path and the type: `io.k8s.api.core.v1.Pod` -> (`k8s.io/api/core/v1`, `Pod`)."""
    package, _, kind = definition.rpartition(".")
    return "k8s.io/" + package.removeprefix("io.k8s.").replace(".", "/"), kind


def roots() -> list[str]:
    """The definitions of all messages that are bodies."""
    served = [row["definition"] for row in json.loads(KINDS.read_bytes()) if row["definition"].startswith("io.k8s.")]
    return sorted({*served, *(f"{definition}List" for definition in served), *(META + kind for kind in META_KINDS)})


def program(definitions: Iterable[str]) -> str:
    """The Go program that prints the tables of these types."""
    names = [go_name(definition) for definition in definitions]
    aliases = {path: f"p{index}" for index, path in enumerate(sorted({path for path, _ in names}))}
    imports = "\n".join(f'\t{alias} "{path}"' for path, alias in aliases.items())
    instances = "\n".join(f"\t\t{aliases[path]}.{kind}{{}}," for path, kind in names)
    return PROGRAM.replace("IMPORTS", imports).replace("ROOTS", instances)


def run(folder: Path, *command: str) -> bytes:
    """Run a Go command without the flags and workspace of the caller."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, env=environment).stdout


def main() -> int:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "main.go").write_text(program(roots()))
        required = "".join(f"require {module} {VERSION}\n" for module in MODULES)
        (folder / "go.mod").write_text(f"module tables\n\ngo 1.26.0\n\n{required}")
        messages: dict[str, dict[str, list[str]]] = json.loads(run(folder, "go", "run", "."))
    packages: dict[str, list[str]] = {}
    for name in sorted(messages):
        packages.setdefault(name.rpartition(".")[0], []).append(name)
    TARGET.mkdir(exist_ok=True)
    for stale in TARGET.glob("*.json"):
        stale.unlink()
    for package, names in packages.items():
        lines = ",\n".join(f" {json.dumps(name.removeprefix(package + '.'))}: {table(messages[name])}" for name in names)
        (TARGET / f"{package}.json").write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(messages)} messages in {len(packages)} packages")
    return 0


def table(fields: dict[str, list[str]]) -> str:
    """One message: a field per line, by number."""
    rows = ",\n".join(f'  "{number}": {json.dumps(fields[number])}' for number in sorted(fields, key=int))
    return f"{{\n{rows}\n }}" if rows else "{}"


if __name__ == "__main__":
    sys.exit(main())
