// Package envtest is a suite as projects with controller-runtime write them: envtest starts a control plane from KUBEBUILDER_ASSETS, installs
// definitions and webhooks, and tests use it. It knows nothing of the server.
package envtest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const finalizer = "boats.example.com/harbour"

var (
	environment *envtest.Environment
	config      *rest.Config
	v1          = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}
	v2          = schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Boat"}
)

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("KUBEBUILDER_ASSETS is not set")
		os.Exit(2)
	}
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	began := time.Now()
	environment = &envtest.Environment{
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{boats()},
		WebhookInstallOptions: webhooks(),
	}
	environment.ControlPlane.GetAPIServer().Configure().Append("feature-gates", "WatchList=true").Append("runtime-config", "api/alpha=false")
	var err error
	if config, err = environment.Start(); err != nil {
		fmt.Println("start:", err)
		os.Exit(1)
	}
	started := time.Since(began)
	ctx, cancel := context.WithCancel(context.Background())
	if err := serveWebhooks(ctx); err != nil {
		fmt.Println("webhooks:", err)
		os.Exit(1)
	}
	code := m.Run()
	cancel()
	began = time.Now()
	if err := environment.Stop(); err != nil {
		fmt.Println("stop:", err)
		code = 1
	}
	fmt.Printf("environment: start %d ms, stop %d ms\n", started.Milliseconds(), time.Since(began).Milliseconds())
	os.Exit(code)
}

func boats() *apiextensionsv1.CustomResourceDefinition {
	version := func(name, length string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		spec := apiextensionsv1.JSONSchemaProps{
			Type:       "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{length: {Type: "integer"}, "crew": {Type: "string"}},
		}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec":   spec,
					"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"ready": {Type: "boolean"}}},
				},
			}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    "example.com",
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Singular: "boat", Kind: "Boat", ListKind: "BoatList"},
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "feet", true), version("v2", "metres", false)},
		},
	}
}

func webhooks() envtest.WebhookInstallOptions {
	fail, none, path, check := admissionv1.Fail, admissionv1.SideEffectClassNone, "/mutate", "/validate"
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"boats"}},
	}}
	at := func(path *string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hooks", Namespace: "default", Path: path}}
	}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boats"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "mutate.example.com", Rules: rules, FailurePolicy: &fail, SideEffects: &none, ClientConfig: at(&path),
				AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boats"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "validate.example.com", Rules: rules, FailurePolicy: &fail, SideEffects: &none, ClientConfig: at(&check),
				AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

func serveWebhooks(ctx context.Context) error {
	options := environment.WebhookInstallOptions
	server := webhook.NewServer(webhook.Options{
		Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
	})
	server.Register("/mutate", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		boat := &unstructured.Unstructured{}
		if err := json.Unmarshal(request.Object.Raw, boat); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if _, found, _ := unstructured.NestedString(boat.Object, "spec", "crew"); !found {
			_ = unstructured.SetNestedField(boat.Object, "nobody", "spec", "crew")
		}
		changed, err := json.Marshal(boat)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(request.Object.Raw, changed)
	})})
	server.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		if strings.Contains(string(request.Object.Raw), `"feet":13`) {
			return admission.Denied("thirteen feet are unlucky")
		}
		return admission.Allowed("").WithWarnings("boats float")
	})})
	server.Register("/convert", http.HandlerFunc(convert))
	go func() { _ = server.Start(ctx) }()
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	return eventually(func() error {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// convert translates feet, of v1, into metres, of v2: ten feet are three metres.
func convert(writer http.ResponseWriter, request *http.Request) {
	review := apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		boat := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw.Raw, boat); err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		from, to, factor := "feet", "metres", func(length int64) int64 { return length * 3 / 10 }
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			from, to, factor = "metres", "feet", func(length int64) int64 { return length * 10 / 3 }
		}
		if length, found, _ := unstructured.NestedInt64(boat.Object, "spec", from); found {
			unstructured.RemoveNestedField(boat.Object, "spec", from)
			_ = unstructured.SetNestedField(boat.Object, factor(length), "spec", to)
		}
		boat.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: boat})
	}
	review.Request, review.Response = nil, response
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(review)
}

func eventually(check func() error) error {
	var err error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return nil
		}
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	made, err := client.New(config, client.Options{})
	must(t, err)
	return made
}

func boat(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetGroupVersionKind(kind)
	made.SetNamespace("default")
	made.SetName(name)
	return made
}

// TestAdmissionWebhooks: what the webhooks of the suite change and refuse.
func TestAdmissionWebhooks(t *testing.T) {
	made := boat(v1, "admitted", map[string]any{"feet": int64(20)})
	must(t, newClient(t).Create(t.Context(), made))
	if crew, _, _ := unstructured.NestedString(made.Object, "spec", "crew"); crew != "nobody" {
		t.Fatalf("crew is %q", crew)
	}
	if len(made.GetAnnotations()) != 0 {
		t.Fatalf("annotations: %v", made.GetAnnotations())
	}
	err := newClient(t).Create(t.Context(), boat(v1, "unlucky", map[string]any{"feet": int64(13)}))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "thirteen feet are unlucky") {
		t.Fatalf("got %v", err)
	}
}

// TestConversionWebhook: objects are read and written in both versions.
func TestConversionWebhook(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	options := environment.WebhookInstallOptions
	url := fmt.Sprintf("https://%s/convert", net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort)))
	definition := &apiextensionsv1.CustomResourceDefinition{}
	must(t, c.Get(ctx, client.ObjectKey{Name: "boats.example.com"}, definition))
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: options.LocalServingCAData},
			ConversionReviewVersions: []string{"v1"},
		},
	}
	must(t, c.Update(ctx, definition))
	must(t, c.Create(ctx, boat(v1, "converted", map[string]any{"feet": int64(30), "crew": "ann"})))
	must(t, eventually(func() error {
		read := boat(v2, "converted", nil)
		if err := c.Get(ctx, client.ObjectKeyFromObject(read), read); err != nil {
			return err
		}
		if length, _, _ := unstructured.NestedInt64(read.Object, "spec", "metres"); length != 9 {
			return fmt.Errorf("metres: %d", length)
		}
		return nil
	}))
}

// TestServerSideApply: two owners of one object, and a conflict.
func TestServerSideApply(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	apply := func(owner string, crew string) error {
		object := boat(v1, "applied", map[string]any{"crew": crew})
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner))
	}
	must(t, apply("first", "ann"))
	if err := apply("second", "bob"); !apierrors.IsConflict(err) {
		t.Fatalf("got %v", err)
	}
	must(t, apply("second", "ann"))
	read := boat(v1, "applied", nil)
	must(t, c.Get(ctx, client.ObjectKeyFromObject(read), read))
	if owners := len(read.GetManagedFields()); owners != 2 {
		t.Fatalf("%d owners", owners)
	}
}

// TestAddUser: a user of the suite may do what roles say.
func TestAddUser(t *testing.T) {
	admin, ctx := newClient(t), t.Context()
	user, err := environment.AddUser(envtest.User{Name: "reader", Groups: []string{"readers"}}, nil)
	must(t, err)
	reader, err := client.New(user.Config(), client.Options{})
	must(t, err)
	maps := &corev1.ConfigMapList{}
	if err := reader.List(ctx, maps, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	must(t, admin.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "readers", Namespace: "default"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}))
	must(t, admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers", Namespace: "default"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "readers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	}))
	must(t, eventually(func() error { return reader.List(ctx, maps, client.InNamespace("default")) }))
	kubectl, err := user.Kubectl()
	must(t, err)
	stdout, stderr, err := kubectl.Run("get", "configmaps", "--namespace", "default")
	if err != nil {
		t.Fatalf("%v: %v %v", err, stdout, stderr)
	}
}

// TestTwoManagers: one of two managers leads; it reconciles boats with a finalizer, and the other one follows when it stops.
func TestTwoManagers(t *testing.T) {
	c := newClient(t)
	start := func(name string) (context.CancelFunc, chan error) {
		manager, err := ctrl.NewManager(config, ctrl.Options{
			Metrics:        metricsserver.Options{BindAddress: "0"},
			LeaderElection: true, LeaderElectionID: "boats", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		})
		must(t, err)
		reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			object := boat(v1, request.Name, nil)
			if err := manager.GetClient().Get(ctx, request.NamespacedName, object); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if !object.GetDeletionTimestamp().IsZero() {
				controllerutil.RemoveFinalizer(object, finalizer)
				return reconcile.Result{}, manager.GetClient().Update(ctx, object)
			}
			if controllerutil.AddFinalizer(object, finalizer) {
				return reconcile.Result{}, manager.GetClient().Update(ctx, object)
			}
			if ready, _, _ := unstructured.NestedBool(object.Object, "status", "ready"); !ready {
				_ = unstructured.SetNestedField(object.Object, true, "status", "ready")
				return reconcile.Result{}, manager.GetClient().Status().Update(ctx, object)
			}
			return reconcile.Result{}, nil
		})
		watched := &unstructured.Unstructured{}
		watched.SetGroupVersionKind(v1)
		must(t, ctrl.NewControllerManagedBy(manager).Named(name).For(watched).Complete(reconciler))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(ctx) }()
		return cancel, ended
	}
	reconciled := func(name string) {
		must(t, c.Create(t.Context(), boat(v1, name, map[string]any{"feet": int64(9)})))
		must(t, eventually(func() error {
			read := boat(v1, name, nil)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
				return err
			}
			if ready, _, _ := unstructured.NestedBool(read.Object, "status", "ready"); !ready {
				return errors.New("not ready")
			}
			return nil
		}))
	}
	stopFirst, firstEnded := start("first")
	reconciled("one")
	stopSecond, secondEnded := start("second")
	lease := &coordinationv1.Lease{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "boats"}, lease))
	holder := *lease.Spec.HolderIdentity
	stopFirst()
	must(t, <-firstEnded)
	reconciled("two")
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "boats"}, lease))
	if *lease.Spec.HolderIdentity == holder {
		t.Fatal("the second manager does not lead")
	}
	gone := boat(v1, "two", nil)
	must(t, c.Delete(t.Context(), gone))
	must(t, eventually(func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	}))
	stopSecond()
	must(t, <-secondEnded)
}

// TestNoControllers: a namespace stays in deletion, dependents stay, and the default service account is the suite's to create.
func TestNoControllers(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "harbour"}}
	must(t, c.Create(ctx, namespace))
	must(t, c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "harbour"}}))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "harbour"}}
	must(t, c.Create(ctx, owner))
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dependent", Namespace: "harbour"}}
	must(t, controllerutil.SetOwnerReference(owner, dependent, scheme.Scheme))
	must(t, c.Create(ctx, dependent))
	must(t, c.Delete(ctx, owner))
	must(t, c.Get(ctx, client.ObjectKeyFromObject(dependent), dependent))
	must(t, c.Delete(ctx, namespace))
	must(t, c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
	if namespace.Status.Phase != corev1.NamespaceTerminating || len(namespace.Spec.Finalizers) != 1 {
		t.Fatalf("%v %v", namespace.Status.Phase, namespace.Spec.Finalizers)
	}
	must(t, c.Get(ctx, client.ObjectKeyFromObject(dependent), dependent))
}
