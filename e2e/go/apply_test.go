package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
)

// TestApply applies typed configurations as two managers, who share, dispute and give up fields.
//
// Compatibility: client-go, apply configurations: conflicts, force, shared and removed fields, status, Extract, migration from client-side apply
func TestApply(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			ctx := testContext(t)
			config := configFor(t, newCluster(t))
			encoding.set(config)
			client := clientset(t, config).CoreV1()
			maps := client.ConfigMaps(namespace)
			data := func(pairs ...string) *corev1ac.ConfigMapApplyConfiguration {
				wanted := corev1ac.ConfigMap("shared", namespace)
				wanted.Data = map[string]string{}
				for i := 0; i < len(pairs); i += 2 {
					wanted.Data[pairs[i]] = pairs[i+1]
				}
				return wanted
			}
			alice, bob := metav1.ApplyOptions{FieldManager: "alice"}, metav1.ApplyOptions{FieldManager: "bob"}

			applied, err := maps.Apply(ctx, data("a", "1", "both", "x").WithLabels(map[string]string{"by": "alice"}), alice)
			must(t, err)
			again, err := maps.Apply(ctx, data("a", "1", "both", "x").WithLabels(map[string]string{"by": "alice"}), alice)
			must(t, err)
			same(t, "version after the same again", again.ResourceVersion, applied.ResourceVersion)
			_, err = maps.Apply(ctx, data("b", "2", "both", "x"), bob)
			must(t, err)
			_, err = maps.Apply(ctx, data("a", "3", "both", "y"), bob)
			expect(t, apierrors.IsConflict, err)
			causes := err.(apierrors.APIStatus).Status().Details.Causes
			same(t, "causes", len(causes), 2)
			for i, name := range []string{".data.a", ".data.both"} {
				same(t, "cause", causes[i].Type, metav1.CauseTypeFieldManagerConflict)
				same(t, "field", causes[i].Field, name)
				same(t, "message", strings.HasPrefix(causes[i].Message, `conflict with "alice"`), true)
			}
			// What both hold stays until both have let go of it.
			applied, err = maps.Apply(ctx, data("b", "2"), bob)
			must(t, err)
			same(t, "still alice's", applied.Data["both"], "x")
			extracted, err := corev1ac.ExtractConfigMap(applied, "bob")
			must(t, err)
			same(t, "bob's fields", len(extracted.Data), 1)
			same(t, "bob's field", extracted.Data["b"], "2")
			applied, err = maps.Apply(ctx, data("a", "3"), metav1.ApplyOptions{FieldManager: "bob", Force: true})
			must(t, err)
			same(t, "taken", applied.Data["a"], "3")
			_, left := applied.Data["b"]
			same(t, "let go", left, false)
			_, err = maps.Apply(ctx, data("a", "1"), alice)
			expect(t, apierrors.IsConflict, err)
			_, err = maps.Apply(ctx, data("a", "1"), metav1.ApplyOptions{})
			expect(t, apierrors.IsInvalid, err)
			_, err = maps.Apply(ctx, data("a", "9"), metav1.ApplyOptions{FieldManager: "bob", DryRun: []string{metav1.DryRunAll}})
			must(t, err)
			read, err := maps.Get(ctx, "shared", metav1.GetOptions{})
			must(t, err)
			same(t, "after a dry run", read.Data["a"], "3")

			roles := clientset(t, config).RbacV1().Roles(namespace)
			role, err := roles.Apply(ctx, rbacv1ac.Role("r", namespace).WithRules(
				rbacv1ac.PolicyRule().WithAPIGroups("").WithResources("pods").WithVerbs("get")), alice)
			must(t, err)
			same(t, "rules", len(role.Rules), 1)
			accounts := client.ServiceAccounts(namespace)
			_, err = accounts.Apply(ctx, corev1ac.ServiceAccount("sa", namespace).WithSecrets(
				corev1ac.ObjectReference().WithName("one")), alice)
			must(t, err)
			account, err := accounts.Apply(ctx, corev1ac.ServiceAccount("sa", namespace).WithSecrets(
				corev1ac.ObjectReference().WithName("two")), bob)
			must(t, err)
			same(t, "secrets of both", len(account.Secrets), 2)
			quotas := client.ResourceQuotas(namespace)
			_, err = quotas.Apply(ctx, corev1ac.ResourceQuota("q", namespace).WithSpec(
				corev1ac.ResourceQuotaSpec().WithHard(corev1.ResourceList{"pods": resource.MustParse("4")})), alice)
			must(t, err)
			quota, err := quotas.ApplyStatus(ctx, corev1ac.ResourceQuota("q", namespace).WithStatus(
				corev1ac.ResourceQuotaStatus().WithUsed(corev1.ResourceList{"pods": resource.MustParse("1")})), bob)
			must(t, err)
			same(t, "used", quota.Status.Used.Pods().Value(), 1)
			status, err := corev1ac.ExtractResourceQuotaStatus(quota, "bob")
			must(t, err)
			same(t, "bob's status", status.Status.Used.Pods().Value(), 1)

			// From kubectl's client-side apply to server-side apply.
			_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Data: map[string]string{"a": "1", "b": "2"}},
				metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
			must(t, err)
			old, err := maps.Get(ctx, "old", metav1.GetOptions{})
			must(t, err)
			patch, err := csaupgrade.UpgradeManagedFieldsPatch(old, sets.New("kubectl-client-side-apply"), "alice")
			must(t, err)
			_, err = maps.Patch(ctx, "old", types.JSONPatchType, patch, metav1.PatchOptions{})
			must(t, err)
			old, err = maps.Apply(ctx, corev1ac.ConfigMap("old", namespace).WithData(map[string]string{"a": "1"}), alice)
			must(t, err)
			same(t, "fields that are left", len(old.Data), 1)
			same(t, "managers", slices.ContainsFunc(old.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
				return entry.Manager != "alice" || entry.Operation != metav1.ManagedFieldsOperationApply
			}), false)
		})
	}
}

// TestConflicts has several writers add to one object, each of which tries again when another was first.
//
// Compatibility: client-go, RetryOnConflict with concurrent writers
func TestConflicts(t *testing.T) {
	ctx := testContext(t)
	maps := clientset(t, configFor(t, newCluster(t))).CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"n": ""}}, metav1.CreateOptions{})
	must(t, err)
	const writers, rounds = 4, 10
	patient := retry.DefaultBackoff
	patient.Steps = 50
	done := make(chan error, writers)
	for range writers {
		go func() {
			for range rounds {
				if err := retry.RetryOnConflict(patient, func() error {
					counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					counter.Data["n"] += "."
					_, err = maps.Update(ctx, counter, metav1.UpdateOptions{})
					return err
				}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		must(t, receive(t, ctx, "writer", done))
	}
	counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	must(t, err)
	same(t, "updates", len(counter.Data["n"]), writers*rounds)
}

// TestScale reads and changes the number of replicas without knowing the kind.
//
// Compatibility: client-go, scale client for custom resources: get, update, patch
func TestScale(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	widgets := dynamicClient(t, config).Resource(widgetResource).Namespace(namespace)
	_, err := widgets.Create(ctx, widget("one", map[string]any{"replicas": int64(1)}), metav1.CreateOptions{})
	must(t, err)
	checkScale(t, ctx, config, widgetResource, "one")
	read, err := widgets.Get(ctx, "one", metav1.GetOptions{})
	must(t, err)
	same(t, "replicas", field(t, read, "spec", "replicas"), any(int64(5)))
}

// checkScale takes an object from one replica to five.
func checkScale(t *testing.T, ctx context.Context, config *rest.Config, resource schema.GroupVersionResource, name string) {
	t.Helper()
	discovered := clientset(t, config).DiscoveryClient
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))
	client, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discovered))
	must(t, err)
	scales := client.Scales(namespace)
	found, err := scales.Get(ctx, resource.GroupResource(), name, metav1.GetOptions{})
	must(t, err)
	same(t, "replicas", found.Spec.Replicas, 1)
	found.Spec.Replicas = 3
	stale := found.DeepCopy()
	found, err = scales.Update(ctx, resource.GroupResource(), found, metav1.UpdateOptions{})
	must(t, err)
	same(t, "replicas", found.Spec.Replicas, 3)
	_, err = scales.Update(ctx, resource.GroupResource(), stale, metav1.UpdateOptions{})
	expect(t, apierrors.IsConflict, err)
	found, err = scales.Patch(ctx, resource, name, types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	must(t, err)
	same(t, "replicas", found.Spec.Replicas, 5)
}
