package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	grantResource   = schema.GroupVersionResource{Group: "access.kcp-py.dev", Version: "v1alpha1", Resource: "clusteraccessgrants"}
	clusterResource = schema.GroupVersionResource{Group: "core.kcp.io", Version: "v1alpha1", Resource: "logicalclusters"}
)

// without is a configuration for a cluster that has no credentials.
func without(t testing.TB, cluster string) *rest.Config {
	t.Helper()
	return rest.AnonymousClientConfig(configFor(t, cluster))
}

// tokenOf makes a token of a service account, which ends with a secret where one is named.
func tokenOf(t testing.TB, ctx context.Context, cluster, account string, boundTo *corev1.Secret) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if boundTo != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: boundTo.Name, UID: boundTo.UID}
	}
	accounts := clientset(t, configFor(t, cluster)).CoreV1().ServiceAccounts(namespace)
	made, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	must(t, err)
	return made.Status.Token
}

func newAccount(t testing.TB, ctx context.Context, cluster, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := clientset(t, configFor(t, cluster)).CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	must(t, err)
}

// setLabel sets a label of a logical cluster, or removes it.
func setLabel(t testing.TB, ctx context.Context, cluster, label string, value any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{label: value}}})
	must(t, err)
	clusters := dynamicClient(t, configFor(t, cluster)).Resource(clusterResource)
	_, err = clusters.Patch(ctx, "cluster", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// TestGrantedManager runs a manager with the token of a service account to which some clusters are granted: it sees exactly these, writes
// to each, and follows clusters that are granted and revoked while its watch runs.
//
// Compatibility: controller-runtime, manager on /clusters/* with the token of a service account and some granted clusters
// Feature: WatchListClient
func TestGrantedManager(t *testing.T) {
	ctx := testContext(t)
	home, a, b, c := newCluster(t), newCluster(t), newCluster(t), newCluster(t)
	label := "access.kcp-py.dev/" + home
	newAccount(t, ctx, home, "manager")
	writers := map[string]client.Client{}
	for _, cluster := range []string{a, b, c} {
		install(t, ctx, configFor(t, cluster), widgetDefinition(widgetGroup))
		made, err := client.New(configFor(t, cluster), client.Options{Scheme: widgetScheme(t)})
		must(t, err)
		writers[cluster] = made
		one := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "same", Namespace: namespace}, Spec: WidgetSpec{Color: "of-" + cluster}}
		must(t, made.Create(ctx, one))
	}
	grants := dynamicClient(t, configFor(t, "root")).Resource(grantResource)
	rule := func(group string, resources []any, verbs ...any) any {
		return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": verbs}
	}
	grant := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "access.kcp-py.dev/v1alpha1", "kind": "ClusterAccessGrant", "metadata": map[string]any{"name": home},
		"spec": map[string]any{
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "manager", "namespace": namespace, "cluster": home}},
			"rules": []any{
				rule(widgetGroup, []any{"widgets"}, "get", "list", "watch"),
				rule("", []any{"configmaps"}, "get", "create", "patch"),
			},
			"clusters": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{label: "granted"}}},
		},
	}}
	for _, cluster := range []string{a, b} {
		setLabel(t, ctx, cluster, label, "granted")
	}
	_, err := grants.Create(ctx, grant, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = grants.Delete(context.Background(), home, metav1.DeleteOptions{}) })

	config := without(t, allClusters)
	config.BearerToken = tokenOf(t, ctx, home, "manager", nil)
	base := rest.CopyConfig(config)
	recorded := recordAll(config)
	runs := newManager(t, config, manager.Options{Cache: ctrlcache.Options{
		NewInformer: func(from cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(qualified(from), example, resync, indexers)
		},
	}})
	must(t, ctrl.NewControllerManagedBy(runs).Named("copy").For(&Widget{}).Complete(
		reconcile.Reconciler(&copyColors{Client: runs.GetClient(), base: base, writers: map[string]client.Client{}})))
	stop := run(t, ctx, runs)

	copied := func(cluster, color string) {
		t.Helper()
		eventually(t, ctx, func() string {
			one := &corev1.ConfigMap{}
			err := writers[cluster].Get(ctx, client.ObjectKey{Namespace: namespace, Name: "copy-of-same"}, one)
			must(t, client.IgnoreNotFound(err))
			if one.Data["color"] != color {
				return fmt.Sprintf("the widget of %s has to be copied as %s: %v", cluster, color, one.Data)
			}
			return ""
		})
	}
	seen := func(clusters ...string) {
		t.Helper()
		slices.Sort(clusters)
		eventually(t, ctx, func() string {
			widgets := &WidgetList{}
			must(t, runs.GetClient().List(ctx, widgets))
			var found []string
			for i := range widgets.Items {
				cluster, _, _ := strings.Cut(widgets.Items[i].Name, separator)
				found = append(found, cluster)
			}
			slices.Sort(found)
			if !slices.Equal(found, clusters) {
				return fmt.Sprintf("%v are seen, not %v", found, clusters)
			}
			return ""
		})
	}
	paint := func(cluster, color string) {
		t.Helper()
		one := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "same", Namespace: namespace}}
		must(t, writers[cluster].Patch(ctx, one, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"color":%q}}`, color))))
	}
	copied(a, "of-"+a)
	copied(b, "of-"+b)
	seen(a, b)
	setLabel(t, ctx, c, label, "granted")
	copied(c, "of-"+c)
	seen(a, b, c)
	setLabel(t, ctx, b, label, nil)
	seen(a, c)
	paint(b, "unseen")
	paint(a, "green")
	copied(a, "green")
	copied(b, "of-"+b)
	inB := rest.CopyConfig(base)
	inB.Host = strings.TrimSuffix(inB.Host, allClusters) + b
	_, err = clientset(t, inB).CoreV1().ConfigMaps(namespace).Get(ctx, "copy-of-same", metav1.GetOptions{})
	expect(t, apierrors.IsForbidden, err)
	must(t, grants.Delete(ctx, home, metav1.DeleteOptions{}))
	seen()
	stop()
	same(t, "one watch for all of it", len(recorded.seen(func(one exchange) bool { return isWatch(one) })), 1)
}

// TestRotatedToken follows config maps with an informer whose token is replaced while it watches: the old token ends with the secret that
// it is bound to, and the informer goes on with the new one without losing an event.
//
// Compatibility: client-go, an exec plugin with tokens of a service account, replaced while an informer watches
func TestRotatedToken(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	admin := clientset(t, configFor(t, cluster))
	newAccount(t, ctx, cluster, "follower")
	viewer := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "follower"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "follower", Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	_, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, viewer, metav1.CreateOptions{})
	must(t, err)
	file := filepath.Join(t.TempDir(), "credential.json")
	rotate := func(name string) {
		t.Helper()
		secret, err := admin.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		credential := clientauthenticationv1.ExecCredential{
			TypeMeta: metav1.TypeMeta{APIVersion: clientauthenticationv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
			Status:   &clientauthenticationv1.ExecCredentialStatus{Token: tokenOf(t, ctx, cluster, "follower", secret)},
		}
		data, err := json.Marshal(credential)
		must(t, err)
		must(t, os.WriteFile(file+".new", data, 0o600))
		must(t, os.Rename(file+".new", file))
	}
	rotate("first")
	config := without(t, cluster)
	config.ExecProvider = &clientcmdapi.ExecConfig{
		APIVersion: clientauthenticationv1.SchemeGroupVersion.String(), Command: "cat", Args: []string{file},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	recorded := recordAll(config)
	factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, config), 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	changes, _ := handle(t, informer)
	write := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := admin.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			must(t, err)
		}
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("no sync")
	}
	// added expects these objects to be added, each once. The list after the refusal repeats known objects as updates.
	added := func(names ...string) {
		t.Helper()
		var found []string
		for len(found) < len(names) {
			if one := receive(t, ctx, "a change", changes); one.kind != "update" {
				found = append(found, one.kind+" "+one.item.GetName())
			}
		}
		slices.Sort(found)
		var wanted []string
		for _, name := range names {
			wanted = append(wanted, "add "+name)
		}
		sameAll(t, "changes", found, wanted)
	}
	write("with-the-first")
	added("with-the-first")
	rotate("second")
	must(t, admin.CoreV1().Secrets(namespace).Delete(ctx, "first", metav1.DeleteOptions{}))
	write(numbered("between", 20)...)
	added(numbered("between", 20)...)
	eventually(t, ctx, func() string {
		if len(recorded.seen(func(one exchange) bool { return one.status == http.StatusUnauthorized })) == 0 {
			return "the first token has to be refused"
		}
		return ""
	})
	write("with-the-second")
	added("with-the-second")
}
