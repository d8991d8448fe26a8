package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

type object interface {
	runtime.Object
	metav1.Object
}

// typedClient is what the generated clients of all kinds have in common.
type typedClient[T object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

type collectionDeleter interface {
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

// equal compares objects as the API's own machinery does: nothing and an empty list are the same.
func equal(t *testing.T, what string, found, wanted runtime.Object) {
	t.Helper()
	if !equality.Semantic.DeepEqual(found, wanted) {
		t.Fatalf("%s: %s", what, diff.Diff(wanted, found))
	}
}

// exercise goes through an object's life with a typed client: make gives a new object of a name, change alters it.
func exercise[T object, L runtime.Object](t *testing.T, client typedClient[T, L], make func(name string) T, change func(T)) {
	t.Helper()
	ctx := testContext(t)
	name := make("one").GetName()

	before, err := client.List(ctx, metav1.ListOptions{LabelSelector: "e2e"})
	must(t, err)
	same(t, "objects before", meta.LenList(before), 0)
	listed, err := meta.ListAccessor(before)
	must(t, err)
	events, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: listed.GetResourceVersion(), FieldSelector: "metadata.name=" + name})
	must(t, err)
	defer events.Stop()
	next := func(kind watch.EventType, wanted T) {
		t.Helper()
		event := receive(t, ctx, string(kind), events.ResultChan())
		same(t, "event", event.Type, kind)
		equal(t, string(kind), event.Object, wanted)
	}

	tried, err := client.Create(ctx, make("one"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	must(t, err)
	if tried.GetUID() == "" {
		t.Fatal("a dry run answers without a uid")
	}
	_, err = client.Get(ctx, name, metav1.GetOptions{})
	expect(t, apierrors.IsNotFound, err)

	created, err := client.Create(ctx, make("one"), metav1.CreateOptions{FieldManager: "maker"})
	must(t, err)
	if created.GetUID() == "" || created.GetResourceVersion() == "" || ptr.To(created.GetCreationTimestamp()).IsZero() {
		t.Fatalf("not all metadata is there: %v", created)
	}
	same(t, "manager", created.GetManagedFields()[0].Manager, "maker")
	next(watch.Added, created)
	_, err = client.Create(ctx, make("one"), metav1.CreateOptions{})
	expect(t, apierrors.IsAlreadyExists, err)
	got, err := client.Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	equal(t, "read", got, created)

	stale := got.DeepCopyObject().(T)
	change(got)
	got.SetLabels(map[string]string{"e2e": "one", "changed": "yes"})
	updated, err := client.Update(ctx, got, metav1.UpdateOptions{})
	must(t, err)
	if updated.GetResourceVersion() == created.GetResourceVersion() {
		t.Fatal("an update is no new version")
	}
	next(watch.Modified, updated)
	stale.SetLabels(map[string]string{"e2e": "stale"})
	_, err = client.Update(ctx, stale, metav1.UpdateOptions{})
	expect(t, apierrors.IsConflict, err)

	for _, patch := range []struct {
		kind types.PatchType
		body string
	}{
		{types.MergePatchType, `{"metadata":{"annotations":{"merge":"yes"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]`},
		{types.StrategicMergePatchType, `{"metadata":{"annotations":{"strategic":"yes","merge":null},"$deleteFromPrimitiveList/finalizers":["no/such"]}}`},
	} {
		updated, err = client.Patch(ctx, name, patch.kind, []byte(patch.body), metav1.PatchOptions{})
		must(t, err)
		next(watch.Modified, updated)
	}
	annotations := maps.Clone(updated.GetAnnotations())
	delete(annotations, clusterOf)
	// Kubernetes gives it to every daemon set.
	delete(annotations, "deprecated.daemonset.template.generation")
	if !maps.Equal(annotations, map[string]string{"json": "yes", "strategic": "yes"}) {
		t.Fatalf("annotations %v", annotations)
	}

	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "changed=yes"})
	must(t, err)
	items, err := meta.ExtractList(list)
	must(t, err)
	same(t, "listed", len(items), 1)
	equal(t, "listed", items[0], updated)

	err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
	expect(t, apierrors.IsConflict, err)
	must(t, client.Delete(ctx, name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		Preconditions:     metav1.NewUIDPreconditions(string(updated.GetUID())),
	}))
	for event := (watch.Event{}); event.Type != watch.Deleted; {
		event = receive(t, ctx, "deletion", events.ResultChan())
		same(t, "uid", event.Object.(T).GetUID(), created.GetUID())
	}
	_, err = client.Get(ctx, name, metav1.GetOptions{})
	expect(t, apierrors.IsNotFound, err)

	// The generated clients have it, the interface of some kinds does not.
	if all, ok := client.(collectionDeleter); ok {
		if _, refused := any(created).(*corev1.Namespace); refused {
			expect(t, apierrors.IsMethodNotSupported, all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
			return
		}
		for _, each := range []string{"two", "three"} {
			_, err = client.Create(ctx, make(each), metav1.CreateOptions{})
			must(t, err)
		}
		must(t, all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "e2e=two"}))
		eventually(t, ctx, func() string {
			left, err := client.List(ctx, metav1.ListOptions{LabelSelector: "e2e"})
			must(t, err)
			items, err := meta.ExtractList(left)
			must(t, err)
			if len(items) == 1 && items[0].(T).GetLabels()["e2e"] == "three" {
				return ""
			}
			return "one of two objects is to be left"
		})
		must(t, all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "e2e"}))
	}
}

// named is the metadata of an object that exercise makes.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"e2e": name}}
}

// TestTyped takes every built-in kind through its life with the typed clients.
//
// Compatibility: client-go, typed clients in JSON and in protobuf of every built-in kind: create, get, list, update, every patch, watch, delete, deletecollection, dry run
func TestTyped(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			config := configFor(t, newCluster(t))
			encoding.set(config)
			recorded := recordAll(config)
			exerciseBuiltins(t, config)
			checkEncoding(t, recorded, encoding.mediaType)
		})
	}
}

// checkEncoding wants every answer, and every request but patches, in a media type.
func checkEncoding(t *testing.T, recorded *recorder, wanted string) {
	t.Helper()
	for _, one := range recorded.seen(func(exchange) bool { return true }) {
		if mediaType, _, _ := strings.Cut(one.answered, ";"); mediaType != wanted {
			t.Fatalf("%s %s %v was answered with %d in %s", one.method, one.path, one.query, one.status, one.answered)
		}
		if one.sent != "" && one.method != http.MethodPatch && one.sent != wanted {
			t.Fatalf("%s %s was sent in %s", one.method, one.path, one.sent)
		}
	}
}

func exerciseBuiltins(t *testing.T, config *rest.Config) {
	client := clientset(t, config)
	now := metav1.NewTime(time.Unix(1700000000, 0))
	precise := metav1.NewMicroTime(time.Unix(1700000000, 123456000))

	t.Run("configmaps", func(t *testing.T) {
		exercise(t, client.CoreV1().ConfigMaps(namespace), func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{"text": "\x00ü"}, BinaryData: map[string][]byte{"raw": {0, 255}}}
		}, func(one *corev1.ConfigMap) { one.Data["more"] = ""; one.Immutable = ptr.To(false) })
	})
	t.Run("secrets", func(t *testing.T) {
		exercise(t, client.CoreV1().Secrets(namespace), func(name string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: named(name), Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": {1, 2}}}
		}, func(one *corev1.Secret) { one.StringData = map[string]string{"password": "x"} })
	})
	t.Run("serviceaccounts", func(t *testing.T) {
		exercise(t, client.CoreV1().ServiceAccounts(namespace), func(name string) *corev1.ServiceAccount {
			return &corev1.ServiceAccount{ObjectMeta: named(name), AutomountServiceAccountToken: ptr.To(false)}
		}, func(one *corev1.ServiceAccount) { one.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} })
	})
	t.Run("events", func(t *testing.T) {
		exercise(t, client.CoreV1().Events(namespace), func(name string) *corev1.Event {
			return &corev1.Event{
				ObjectMeta: named(name), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"},
				Reason: "Testing", Type: corev1.EventTypeNormal, FirstTimestamp: now, LastTimestamp: now, Count: 1,
			}
		}, func(one *corev1.Event) { one.Count = 2 })
	})
	t.Run("events.k8s.io events", func(t *testing.T) {
		exercise(t, client.EventsV1().Events("kube-public"), func(name string) *eventsv1.Event {
			return &eventsv1.Event{
				ObjectMeta: named(name), Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-public", Name: "p"},
				Reason: "Testing", Type: corev1.EventTypeNormal, Action: "Test", ReportingController: "e2e.example.com/go", ReportingInstance: "i",
				EventTime: precise,
			}
		}, func(one *eventsv1.Event) { one.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: precise} })
	})
	t.Run("leases", func(t *testing.T) {
		exercise(t, client.CoordinationV1().Leases(namespace), func(name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: named(name), Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &precise, RenewTime: &precise,
			}}
		}, func(one *coordinationv1.Lease) { one.Spec.LeaseTransitions = ptr.To[int32](1) })
	})
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}}
	t.Run("roles", func(t *testing.T) {
		exercise(t, client.RbacV1().Roles(namespace), func(name string) *rbacv1.Role {
			return &rbacv1.Role{ObjectMeta: named(name), Rules: slices.Clone(rules)}
		}, func(one *rbacv1.Role) { one.Rules[0].ResourceNames = []string{"p"} })
	})
	t.Run("rolebindings", func(t *testing.T) {
		exercise(t, client.RbacV1().RoleBindings(namespace), func(name string) *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{
				ObjectMeta: named(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}, Subjects: subjects,
			}
		}, func(one *rbacv1.RoleBinding) { one.Subjects = nil })
	})
	t.Run("clusterroles", func(t *testing.T) {
		exercise(t, client.RbacV1().ClusterRoles(), func(name string) *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: named(name), Rules: slices.Clone(rules)}
		}, func(one *rbacv1.ClusterRole) {
			one.Rules = append(one.Rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/healthz"}, Verbs: []string{"get"}})
		})
	})
	t.Run("clusterrolebindings", func(t *testing.T) {
		exercise(t, client.RbacV1().ClusterRoleBindings(), func(name string) *rbacv1.ClusterRoleBinding {
			return &rbacv1.ClusterRoleBinding{
				ObjectMeta: named(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}, Subjects: subjects,
			}
		}, func(one *rbacv1.ClusterRoleBinding) { one.Subjects = nil })
	})
	_, err := client.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}}, metav1.CreateOptions{})
	must(t, err)
	t.Run("limitranges", func(t *testing.T) {
		exercise(t, client.CoreV1().LimitRanges("limited"), func(name string) *corev1.LimitRange {
			return &corev1.LimitRange{ObjectMeta: named(name), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
			}}}}
		}, func(one *corev1.LimitRange) {
			one.Spec.Limits[0].Max[corev1.ResourceMemory] = resource.MustParse("1.5Gi")
		})
	})
	t.Run("resourcequotas", func(t *testing.T) {
		exercise(t, client.CoreV1().ResourceQuotas("limited"), func(name string) *corev1.ResourceQuota {
			return &corev1.ResourceQuota{ObjectMeta: named(name), Spec: corev1.ResourceQuotaSpec{
				Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("10")},
			}}
		}, func(one *corev1.ResourceQuota) { one.Spec.Hard[corev1.ResourceSecrets] = resource.MustParse("5") })
	})
	t.Run("namespaces", func(t *testing.T) {
		exercise(t, client.CoreV1().Namespaces(), func(name string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: named(name)}
		}, func(*corev1.Namespace) {})
	})
}

// TestDefinitions defines, changes and removes a custom resource with the typed client of apiextensions.
//
// Compatibility: client-go, typed apiextensions client in JSON and protobuf: definitions, from creation to their being served and gone
func TestDefinitions(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			ctx := testContext(t)
			config := configFor(t, newCluster(t))
			encoding.set(config)
			recorded := recordAll(config)
			install(t, ctx, config, widgetDefinition(widgetGroup))
			client, err := apiextensions.NewForConfig(config)
			must(t, err)
			definitions := client.ApiextensionsV1().CustomResourceDefinitions()
			wanted := widgetDefinition(widgetGroup)
			must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
				found, err := definitions.Get(ctx, wanted.Name, metav1.GetOptions{})
				must(t, err)
				if !equality.Semantic.DeepEqual(found.Spec.Versions, wanted.Spec.Versions) {
					t.Fatal(diff.Diff(wanted.Spec.Versions, found.Spec.Versions))
				}
				found.Spec.Names.ShortNames = []string{"wd"}
				_, err = definitions.Update(ctx, found, metav1.UpdateOptions{})
				return err
			}))
			eventually(t, ctx, func() string {
				found, err := definitions.Get(ctx, wanted.Name, metav1.GetOptions{})
				must(t, err)
				if !slices.Equal(found.Status.AcceptedNames.ShortNames, []string{"wd"}) {
					return "the short name has to be accepted"
				}
				return ""
			})
			widgets := dynamicClient(t, configFor(t, path.Base(config.Host))).Resource(widgetResource).Namespace(namespace)
			_, err = widgets.Create(ctx, widget("one", nil), metav1.CreateOptions{})
			must(t, err)

			events, err := definitions.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + wanted.Name})
			must(t, err)
			defer events.Stop()
			must(t, definitions.Delete(ctx, wanted.Name, metav1.DeleteOptions{}))
			terminating := false
			for event := (watch.Event{}); event.Type != watch.Deleted; {
				event = receive(t, ctx, "deletion", events.ResultChan())
				for _, condition := range event.Object.(*apiextensionsv1.CustomResourceDefinition).Status.Conditions {
					terminating = terminating || condition.Type == apiextensionsv1.Terminating
				}
			}
			same(t, "seen terminating", terminating, true)
			_, err = widgets.List(ctx, metav1.ListOptions{})
			expect(t, apierrors.IsNotFound, err)
			checkEncoding(t, recorded, encoding.mediaType)
		})
	}
}

// TestTypedStatus writes status, which an ordinary update leaves alone, through the subresource.
//
// Compatibility: client-go, typed clients' UpdateStatus and Finalize
func TestTypedStatus(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			ctx := testContext(t)
			config := configFor(t, newCluster(t))
			encoding.set(config)
			client := clientset(t, config)
			quotas := client.CoreV1().ResourceQuotas(namespace)
			quota, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: named("q"), Spec: corev1.ResourceQuotaSpec{
				Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")},
			}}, metav1.CreateOptions{})
			must(t, err)
			quota.Status.Hard = quota.Spec.Hard
			quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
			quota.Spec.Hard = corev1.ResourceList{}
			quota, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
			must(t, err)
			same(t, "used", quota.Status.Used.Pods().Value(), 1)
			same(t, "hard", quota.Spec.Hard.Pods().Value(), 3)

			namespaces := client.CoreV1().Namespaces()
			made, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: named("held")}, metav1.CreateOptions{})
			must(t, err)
			sameAll(t, "finalizers", made.Spec.Finalizers, []corev1.FinalizerName{corev1.FinalizerKubernetes})
			made.Spec.Finalizers = append(made.Spec.Finalizers, "example.com/hold")
			made, err = namespaces.Finalize(ctx, made, metav1.UpdateOptions{})
			must(t, err)
			must(t, namespaces.Delete(ctx, made.Name, metav1.DeleteOptions{}))
			eventually(t, ctx, func() string {
				made, err = namespaces.Get(ctx, made.Name, metav1.GetOptions{})
				must(t, err)
				if made.Status.Phase != corev1.NamespaceTerminating || !slices.Equal(made.Spec.Finalizers, []corev1.FinalizerName{"example.com/hold"}) {
					return "the namespace has to terminate but for one finalizer"
				}
				return ""
			})
			_, err = client.CoreV1().ConfigMaps(made.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: named("late")}, metav1.CreateOptions{})
			expect(t, func(err error) bool {
				return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
			}, err)
			made.Spec.Finalizers = nil
			_, err = namespaces.Finalize(ctx, made, metav1.UpdateOptions{})
			must(t, err)
			eventually(t, ctx, func() string {
				if _, err := namespaces.Get(ctx, made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return "the namespace has to go"
				}
				return ""
			})
		})
	}
}

// warnings collects what the server warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// TestFieldValidation has unknown and repeated fields refused, warned of or dropped, as asked.
//
// Compatibility: client-go, field validation: Strict, Warn and Ignore for built-in kinds and custom resources
func TestFieldValidation(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	heard := &warnings{}
	config.WarningHandler = heard
	install(t, ctx, config, widgetDefinition(widgetGroup))
	client := clientset(t, config)
	for _, one := range []struct {
		name, path string
		body       map[string]any
	}{
		{"configmap", "/api/v1/namespaces/default/configmaps", map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
		{"widget", "/apis/" + widgetGroup + "/v1/namespaces/default/widgets", map[string]any{"apiVersion": widgetGroup + "/v1", "kind": "Widget"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			post := func(validation string) error {
				one.body["metadata"] = map[string]any{"generateName": "x-"}
				one.body["strange"] = 1
				body, err := json.Marshal(one.body)
				must(t, err)
				heard.texts = nil
				return client.RESTClient().Post().AbsPath(one.path).VersionedParams(
					&metav1.CreateOptions{FieldValidation: validation}, metav1.ParameterCodec).Body(body).Do(ctx).Error()
			}
			must(t, post(metav1.FieldValidationIgnore))
			sameAll(t, "warnings", heard.texts, nil)
			must(t, post(metav1.FieldValidationWarn))
			sameAll(t, "warnings", heard.texts, []string{`unknown field "strange"`})
			err := post(metav1.FieldValidationStrict)
			expect(t, apierrors.IsBadRequest, err)
			if !strings.Contains(err.Error(), `strict decoding error: unknown field "strange"`) {
				t.Fatal(err)
			}
			expect(t, apierrors.IsInvalid, post("Sometimes"))
		})
	}
}
