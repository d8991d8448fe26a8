"""Derive the protobuf tables of the built-in kinds that ship in kcp_py/bootstrap/protobuf.

Source: the Go modules `k8s.io/api`, `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver` and `k8s.io/kube-aggregator` (Apache-2.0). A
small Go program registers their kinds as clients do, reflects over their types and prints their struct tags: `protobuf` contains the
numbers and wire types of `generated.proto`, `json` the names, and the omitted and inlined fields.

Needs Go and the Go module proxy. Run it from the repository's root; the output is deterministic.

- `kinds.json`: apiVersion -> message -> kinds; `*` for what every API version has. Kinds that are called as their messages are stand in
  a list at their package, which ends in a dot.
- One file per Go package: message -> field number -> [JSON name, type, rule]. Types: `string`, `bytes`, `bool`, `int32`, `int64`,
  `double`, or the name of a message, of which the package is left out where it is the same; with `[]` before it for lists and `{}` for
  maps from strings. Rules: empty (the zero value is written in JSON), `omit` (it is left out), `pointer` (left out when absent, zero
  values stay), `null` (null when absent), `inline` (a message whose members are the containing object's in JSON), `items` (the only field
  of a message that is a list in JSON).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

VERSION = "v0.37.2"
MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
KINDS_OF = (
    "k8s.io/api/...",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/...",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/...",
)
"""The packages in which kinds are looked for; those without versions in their names have internal types."""
VERSIONED = re.compile(r"/v\d+((alpha|beta)\d+)?$")
TARGET = Path("kcp_py/bootstrap/protobuf")
PROGRAM = r"""
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// The types whose JSON form is not that of their fields, which the codec knows by name.
var ownJSON = map[string]bool{
	"io.k8s.apimachinery.pkg.api.resource.Quantity": true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time": true,
	"io.k8s.apimachinery.pkg.runtime.RawExtension": true,
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": true,
	"JSON": true,
	"JSONSchemaPropsOrArray": true,
	"JSONSchemaPropsOrBool": true,
	"JSONSchemaPropsOrStringArray": true,
}

var reader = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()

func walk(t reflect.Type) {
	if _, done := messages[name(t)]; done {
		return
	}
	fields := map[string][3]string{}
	messages[name(t)] = fields
	if ownJSON[name(t)] || strings.Contains(name(t), ".apiextensions.v1") && ownJSON[t.Name()] {
		return
	}
	if reflect.PointerTo(t).Implements(reader) {
		panic("own form in JSON: " + name(t))
	}
	if t.Kind() != reflect.Struct {
		fields["1"] = [3]string{"", "[]" + element(t.Elem()), "items"}
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
			if field.Type.Kind() != reflect.Struct {
				panic(fmt.Sprintf("inlined pointer: %v.%s", t, field.Name))
			}
			fields[wire[1]] = [3]string{"", element(field.Type), "inline"}
			continue
		} else if jsonName == "" {
			jsonName = field.Name
		} else if jsonName == "-" {
			panic(fmt.Sprintf("not in JSON: %v.%s", t, field.Name))
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
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		metav1.AddMetaToScheme,
		metav1beta1.AddMetaToScheme,
ADDERS
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	kinds := map[string]map[string]string{}
	for kind, t := range scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !reflect.PointerTo(t).Implements(message) {
			continue
		}
		walk(t)
		version := kind.GroupVersion().String()
		if kinds[version] == nil {
			kinds[version] = map[string]string{}
		}
		kinds[version][kind.Kind] = name(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"messages": messages, "kinds": kinds}); err != nil {
		panic(err)
	}
}
"""


def program(packages: Iterable[str]) -> str:
    """The Go program that prints the tables of the kinds of these packages."""
    aliases = {path: f"p{index}" for index, path in enumerate(packages)}
    imports = "\n".join(f'\t{alias} "{path}"' for path, alias in aliases.items())
    adders = "\n".join(f"\t\t{alias}.AddToScheme," for alias in aliases.values())
    return PROGRAM.replace("IMPORTS", imports).replace("ADDERS", adders)


def registers(path: str, code: str) -> bool:
    """Whether a package has kinds of an API version."""
    register = Path(code) / "register.go"
    return bool(VERSIONED.search(path)) and register.exists() and "AddToScheme" in register.read_text()


def run(folder: Path, *command: str) -> bytes:
    """Run a Go command without the flags and workspace of the caller."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, env=environment).stdout


def main() -> int:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        required = "".join(f"require {module} {VERSION}\n" for module in MODULES)
        (folder / "go.mod").write_text(f"module tables\n\ngo 1.26.0\n\n{required}")
        listed = run(folder, "go", "list", "-f", "{{.ImportPath}} {{.Dir}}", *KINDS_OF).decode().splitlines()
        (folder / "main.go").write_text(
            program(sorted(path for path, _, code in (line.partition(" ") for line in listed) if registers(path, code)))
        )
        printed = json.loads(run(folder, "go", "run", "."))
    messages: dict[str, dict[str, list[str]]] = printed["messages"]
    packages: dict[str, list[str]] = {}
    for name in sorted(messages):
        packages.setdefault(package_of(name), []).append(name)
    TARGET.mkdir(exist_ok=True)
    for stale in TARGET.glob("*.json"):
        stale.unlink()
    for package, names in packages.items():
        lines = ",\n".join(f" {json.dumps(name.removeprefix(package + '.'))}: {table(messages[name], package)}" for name in names)
        (TARGET / f"{package}.json").write_text(f"{{\n{lines}\n}}\n")
    index = kinds_by_message(printed["kinds"])
    lines = ",\n".join(f" {json.dumps(version)}: {json.dumps(index[version])}" for version in sorted(index))
    (TARGET / "kinds.json").write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(messages)} messages in {len(packages)} packages, {sum(map(len, printed['kinds'].values()))} kinds")
    return 0


def package_of(message: str) -> str:
    """The package: `io.k8s.api.core.v1.Pod` -> `io.k8s.api.core.v1`."""
    return message.rpartition(".")[0]


def kinds_by_message(kinds: dict[str, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    """The content of `kinds.json`."""
    common = set.intersection(*(set(of.items()) for version, of in kinds.items() if not version.startswith("meta.k8s.io/")))
    index: dict[str, dict[str, list[str]]] = {}
    for version, of in {"*": dict(common), **kinds}.items():
        for kind, message in sorted(of.items()):
            if version == "*" or (kind, message) not in common:
                package, _, name = message.rpartition(".")
                index.setdefault(version, {}).setdefault(package + "." if name == kind else message, []).append(kind)
    return index


def table(fields: dict[str, list[str]], package: str) -> str:
    """One message: a field per line, by number."""

    def short(kind: str) -> str:
        prefix, name = (kind[:2], kind[2:]) if kind[:2] in {"[]", "{}"} else ("", kind)
        return prefix + (name.removeprefix(package) if package_of(name) == package else name)

    rows = ",\n".join(
        f'  "{number}": {json.dumps([name, short(kind), rule])}'
        for number, (name, kind, rule) in sorted(fields.items(), key=lambda f: int(f[0]))
    )
    return f"{{\n{rows}\n }}" if rows else "{}"


if __name__ == "__main__":
    sys.exit(main())
