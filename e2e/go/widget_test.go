package e2e

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const widgetGroup = "go.example.com"

var (
	widgetVersion  = schema.GroupVersion{Group: widgetGroup, Version: "v1"}
	widgetResource = widgetVersion.WithResource("widgets")
	widgetKind     = widgetVersion.WithKind("Widget")
)

// Widget is a custom resource as an author of controllers declares it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec,omitempty"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is the desired state.
type WidgetSpec struct {
	Color    string `json:"color,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// WidgetStatus is the actual state.
type WidgetStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	out := &Widget{TypeMeta: w.TypeMeta, ObjectMeta: *w.ObjectMeta.DeepCopy(), Spec: w.Spec, Status: w.Status}
	if w.Spec.Replicas != nil {
		out.Spec.Replicas = ptr.To(*w.Spec.Replicas)
	}
	out.Status.Conditions = nil
	for _, condition := range w.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
	return out
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := &WidgetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return out
}

func addWidgets(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(widgetVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, widgetVersion)
}

// widgetDefinition defines widgets in a group, with status and scale.
func widgetDefinition(group string) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: ptr.To(0.0)}
	condition := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"type"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": {Type: "string", Format: "date-time"},
			"observedGeneration": number,
		},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", Categories: []string{"all"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
				},
				SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"color":    {Type: "string", Description: "What the widget looks like.", Default: &apiextensionsv1.JSON{Raw: []byte(`"grey"`)}},
							"replicas": number,
						}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"observedGeneration": number, "replicas": number,
							"conditions": {
								Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
								XListType: ptr.To("map"), XListMapKeys: []string{"type"},
							},
						}},
					},
				}},
			}},
		},
	}
}

// install creates a definition and returns when it is established.
func install(t testing.TB, ctx context.Context, config *rest.Config, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	must(t, err)
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err = definitions.Create(ctx, definition, metav1.CreateOptions{})
	must(t, err)
	eventually(t, ctx, func() string {
		found, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
		must(t, err)
		for _, condition := range found.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return ""
			}
		}
		return definition.Name + " has to be established"
	})
}

// widget is an unstructured widget.
func widget(name string, spec map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetGroupVersionKind(widgetKind)
	made.SetName(name)
	made.SetNamespace(namespace)
	return made
}

func field(t testing.TB, one *unstructured.Unstructured, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(one.Object, path...)
	must(t, err)
	return value
}

func conditionStatus(conditions []metav1.Condition, kind string) metav1.ConditionStatus {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return found.Status
	}
	return ""
}
