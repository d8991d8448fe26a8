package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

func describe(lists []*metav1.APIResourceList) []string {
	var found []string
	for _, list := range lists {
		for _, one := range list.APIResources {
			if strings.Contains(one.Name, "/") {
				// client-go gives subresources the singular of their resource where it reads aggregated documents.
				one.SingularName = ""
			}
			found = append(found, strings.Join(append([]string{list.GroupVersion, one.Name, one.Kind, one.SingularName}, one.ShortNames...), " "))
		}
	}
	slices.Sort(found)
	return found
}

// TestDiscovery requests the served resources, in one document and in many.
//
// Compatibility: client-go, discovery (aggregated, legacy, cached in memory and on disk), RESTMapper, shortcuts and categories as definitions come and go
func TestDiscovery(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	recorded := recordAll(config)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	groups, resources, err := client.ServerGroupsAndResources()
	must(t, err)
	same(t, "documents", len(recorded.seen(func(exchange) bool { return true })), 2)
	for _, one := range recorded.seen(func(exchange) bool { return true }) {
		same(t, "aggregated", strings.Contains(one.answered, "as=APIGroupDiscoveryList"), true)
	}
	legacy, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	legacy.UseLegacyDiscovery = true
	legacyGroups, legacyResources, err := legacy.ServerGroupsAndResources()
	must(t, err)
	names := func(groups []*metav1.APIGroup) []string {
		var names []string
		for _, group := range groups {
			names = append(names, group.Name+" "+group.PreferredVersion.GroupVersion)
		}
		return names
	}
	sameAll(t, "groups", names(legacyGroups), names(groups))
	sameAll(t, "resources", describe(legacyResources), describe(resources))
	same(t, "namespaces", slices.Contains(describe(resources), "v1 namespaces Namespace namespace ns"), true)
	version, err := client.ServerVersion()
	must(t, err)
	same(t, "major version", version.Major, "1")
	preferred, err := client.ServerPreferredNamespacedResources()
	must(t, err)
	same(t, "configmaps", slices.Contains(describe(preferred), "v1 configmaps ConfigMap configmap cm"), true)

	cached := memory.NewMemCacheClient(client)
	onDisk, err := disk.NewCachedDiscoveryClientForConfig(config, t.TempDir(), t.TempDir(), patience)
	must(t, err)
	for name, cached := range map[string]discovery.CachedDiscoveryInterface{"memory": cached, "disk": onDisk} {
		t.Run(name, func(t *testing.T) {
			group := name + ".example.com"
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
			mapping, err := mapper.RESTMapping(schema.GroupKind{Kind: "ConfigMap"})
			must(t, err)
			same(t, "configmaps", mapping.Resource, corev1.SchemeGroupVersion.WithResource("configmaps"))
			_, err = mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Widget"})
			expect(t, meta.IsNoMatchError, err)
			definition := widgetDefinition(group)
			definition.Spec.Names.ShortNames = []string{"wd" + name}
			install(t, ctx, config, definition)
			mapper.Reset()
			mapping, err = mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Widget"})
			must(t, err)
			same(t, "widgets", mapping.Resource, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
			same(t, "scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace)
			expanded, err := restmapper.NewShortcutExpander(mapper, cached, nil).ResourceFor(schema.GroupVersionResource{Resource: "wd" + name})
			must(t, err)
			same(t, "by short name", expanded, mapping.Resource)
			members, found := restmapper.NewDiscoveryCategoryExpander(cached).Expand("all")
			same(t, "category", found && slices.Contains(members, mapping.Resource.GroupResource()), true)
			subresources := describe(must2(cached.ServerResourcesForGroupVersion(group + "/v1"))(t))
			sameAll(t, "subresources", subresources, []string{
				group + "/v1 widgets Widget widget wd" + name, group + "/v1 widgets/scale Scale ", group + "/v1 widgets/status Widget ",
			})
		})
	}
}

// must2 passes a list on.
func must2(list *metav1.APIResourceList, err error) func(testing.TB) []*metav1.APIResourceList {
	return func(t testing.TB) []*metav1.APIResourceList {
		t.Helper()
		must(t, err)
		return []*metav1.APIResourceList{list}
	}
}

// TestOpenAPI decodes the published schemas, the old form from protobuf and the new one from both of its encodings.
//
// Compatibility: client-go, OpenAPI v2 (protobuf) and v3 (JSON and protobuf) of built-in kinds and custom resources
func TestOpenAPI(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	recorded := recordAll(config)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	eventually(t, ctx, func() string {
		document, err := client.OpenAPISchema()
		must(t, err)
		found := map[string]schema.GroupVersionKind{}
		for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
			for _, extension := range definition.GetValue().GetVendorExtension() {
				if extension.GetName() == "x-kubernetes-group-version-kind" {
					var kinds []schema.GroupVersionKind
					must(t, yaml.Unmarshal([]byte(extension.GetValue().GetYaml()), &kinds))
					found[definition.GetName()] = kinds[0]
				}
			}
		}
		for name, kind := range map[string]schema.GroupVersionKind{
			"io.k8s.api.core.v1.ConfigMap": corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			"com.example.go.v1.Widget":     widgetKind,
		} {
			if found[name] != kind {
				return fmt.Sprintf("%s has to be described, and is not %v", name, found[name])
			}
		}
		return ""
	})
	for _, one := range recorded.seen(func(one exchange) bool { return strings.HasSuffix(one.path, "/openapi/v2") }) {
		same(t, "media type", one.answered, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
		same(t, "status", one.status, http.StatusOK)
	}

	root := openapi3.NewRoot(client.OpenAPIV3())
	versions, err := root.GroupVersions()
	must(t, err)
	for _, version := range []schema.GroupVersion{corev1.SchemeGroupVersion, widgetVersion} {
		same(t, version.String(), slices.Contains(versions, version), true)
		document, err := root.GVSpec(version)
		must(t, err)
		name := map[string]string{"": "io.k8s.api.core.v1.ConfigMap", widgetGroup: "com.example.go.v1.Widget"}[version.Group]
		described, found := document.Components.Schemas[name]
		same(t, name, found, true)
		same(t, "metadata", len(described.Properties["metadata"].AllOf), 1)
	}
	// What upstream sends as protobuf is what gnostic makes of the JSON form.
	paths, err := client.OpenAPIV3().Paths()
	must(t, err)
	for path, described := range paths {
		if !strings.HasPrefix(path, "api") {
			continue
		}
		text, err := described.Schema("application/json")
		must(t, err)
		wanted, err := openapi_v3.ParseDocument(text)
		must(t, err)
		binary, err := described.Schema(openapi.ContentTypeOpenAPIV3PB)
		must(t, err)
		found := &openapi_v3.Document{}
		must(t, proto.Unmarshal(binary, found))
		equalMessages(t, path, found, wanted)
	}
	text, err := client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").Do(ctx).Raw()
	must(t, err)
	wanted, err := openapi_v2.ParseDocument(text)
	must(t, err)
	found, err := client.OpenAPISchema()
	must(t, err)
	equalMessages(t, "v2", found, wanted)
}

func equalMessages(t *testing.T, what string, found, wanted proto.Message) {
	t.Helper()
	if first, second := canonical(t, wanted), canonical(t, found); !slices.Equal(first, second) {
		t.Fatalf("%s in protobuf is not its JSON form:\n%s", what, diff.Diff(first, second))
	}
}

// canonical is a message as lines of text. Extensions are YAML within it, which can be written in many ways.
func canonical(t *testing.T, message proto.Message) []string {
	t.Helper()
	lines := strings.Split(prototext.Format(message), "\n")
	for i, line := range lines {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "yaml:"); found {
			text, err := strconv.Unquote(strings.TrimSpace(text))
			must(t, err)
			value, err := yaml.YAMLToJSON([]byte(text))
			must(t, err)
			lines[i] = string(value)
		}
	}
	return lines
}
