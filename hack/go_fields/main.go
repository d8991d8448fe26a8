// Command gofields prints how Go encodes the fields of the Kubernetes API types, as JSON.
//
// It reads a list of {"group", "version", "kind"} from standard input. update_go_fields.py runs it and describes the output.
package main

import (
	"encoding/json"
	"log"
	"os"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

type structure struct {
	GoName string            `json:"go"`
	Fields map[string]string `json:"fields"`
}

type value struct {
	GoName string          `json:"go"`
	Zero   json.RawMessage `json:"zero"`
}

var structures = map[string]structure{}
var values = map[string]value{}

// openAPIName is the name under which the OpenAPI documents publish a type.
func openAPIName(t reflect.Type) string {
	path := t.PkgPath()
	host, rest, _ := strings.Cut(path, "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// describe writes a type as update_go_fields.py documents it, and remembers the structures that it reaches.
func describe(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + describe(t.Elem())
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		name := "=" + t.Name()
		zero, err := json.Marshal(reflect.Zero(t).Interface())
		if err != nil {
			log.Fatalf("%v: %v", t, err)
		}
		values[t.Name()] = value{t.String(), zero}
		return name
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + named(t) + "]" + describe(t.Elem())
	case reflect.Map:
		return "{" + named(t) + "}" + describe(t.Elem())
	case reflect.Struct:
		name := openAPIName(t)
		if t.Name() == "JSONSchemaProps" {
			return "any"
		}
		if _, known := structures[name]; !known {
			structures[name] = structure{}
			fields := map[string]string{}
			collect(t, fields)
			structures[name] = structure{t.String(), fields}
		}
		return name
	}
	if t.PkgPath() != "" {
		return t.Kind().String() + ":" + t.String()
	}
	return t.Kind().String()
}

// named is the Go name of a map or slice, where it does not follow from that of the elements.
func named(t reflect.Type) string {
	plain := "[]" + t.Elem().String()
	if t.Kind() == reflect.Map {
		plain = "map[string]" + t.Elem().String()
	}
	if t.String() == plain {
		return ""
	}
	return t.String()
}

func collect(t reflect.Type, fields map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if field.Anonymous && name == "" {
			collect(field.Type, fields)
			continue
		}
		fields[name] = describe(field.Type) + omission(field.Type, strings.Split(options, ","))
	}
}

// omission says when the encoder leaves a field out: never (nothing), where it is empty ("?"), or where a structure is zero ("!").
func omission(t reflect.Type, options []string) string {
	empty, zero := false, false
	for _, option := range options {
		empty = empty || option == "omitempty"
		zero = zero || option == "omitzero"
	}
	if t.Kind() == reflect.Struct {
		if zero {
			return "!"
		}
		return ""
	}
	if empty || zero {
		return "?"
	}
	return ""
}

func main() {
	log.SetFlags(0)
	if err := aggregation.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	var kinds []struct{ Group, Version, Kind string }
	if err := json.NewDecoder(os.Stdin).Decode(&kinds); err != nil {
		log.Fatal(err)
	}
	for _, kind := range kinds {
		obj, err := scheme.Scheme.New(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind})
		if err != nil {
			log.Fatal(err)
		}
		describe(reflect.TypeOf(obj).Elem())
	}
	output := map[string]any{"structures": structures, "values": values}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(output); err != nil {
		log.Fatal(err)
	}
}
