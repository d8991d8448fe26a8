package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv1ac "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	typedpolicyv1 "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// installKnown adds kinds of Kubernetes to a cluster, as its administrator does.
func installKnown(t testing.TB, ctx context.Context, cluster string, kinds ...string) {
	t.Helper()
	python := os.Getenv("E2E_PYTHON")
	if python == "" {
		t.Fatal("E2E_PYTHON names no Python that has kcp_py")
	}
	arguments := append([]string{"-m", "kcp_py", "builtin", "install", "--create", "--cluster", cluster, "--kubeconfig", os.Getenv("KUBECONFIG")}, kinds...)
	if said, err := exec.CommandContext(ctx, python, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

func podSpec(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "nginx", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5")}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)},
			}},
		}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
}

// TestKnownKinds takes kinds that a cluster has as CRDs through their life with the typed clients, as the kinds that these have compiled in.
//
// Compatibility: client-go, typed clients of pods, deployments and other kinds that are installed as CRDs, in JSON and protobuf
func TestKnownKinds(t *testing.T) {
	cluster := newCluster(t)
	installKnown(t, testContext(t), cluster, "pods", "services", "persistentvolumeclaims", "nodes", "*.apps", "*.batch",
		"horizontalpodautoscalers.autoscaling", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
		"poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io")
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			config := configFor(t, cluster)
			encoding.set(config)
			recorded := recordAll(config)
			client := clientset(t, config)
			labels := map[string]string{"app": "web"}
			selector := &metav1.LabelSelector{MatchLabels: labels}

			exercise(t, client.CoreV1().Pods(namespace), func(name string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: named(name), Spec: podSpec(nil).Spec}
			}, func(one *corev1.Pod) { one.Spec.Containers[0].Image = "nginx:2" })
			exercise(t, client.CoreV1().Services(namespace), func(name string) *corev1.Service {
				return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
			}, func(one *corev1.Service) { one.Spec.Ports[0].TargetPort = intstr.FromString("http") })
			exercise(t, client.CoreV1().PersistentVolumeClaims(namespace), func(name string) *corev1.PersistentVolumeClaim {
				return &corev1.PersistentVolumeClaim{ObjectMeta: named(name), Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				}}
			}, func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeName = "v" })
			exercise(t, client.CoreV1().Nodes(), func(name string) *corev1.Node {
				return &corev1.Node{ObjectMeta: named(name), Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24"}}
			}, func(one *corev1.Node) { one.Spec.Unschedulable = true })
			exercise(t, client.AppsV1().Deployments(namespace), func(name string) *appsv1.Deployment {
				return &appsv1.Deployment{ObjectMeta: named(name), Spec: appsv1.DeploymentSpec{Selector: selector, Template: podSpec(labels)}}
			}, func(one *appsv1.Deployment) { one.Spec.Replicas = ptr.To[int32](3) })
			exercise(t, client.AppsV1().StatefulSets(namespace), func(name string) *appsv1.StatefulSet {
				return &appsv1.StatefulSet{ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{
					Selector: selector, Template: podSpec(labels), ServiceName: "web",
				}}
			}, func(one *appsv1.StatefulSet) { one.Spec.Replicas = ptr.To[int32](3) })
			exercise(t, client.AppsV1().DaemonSets(namespace), func(name string) *appsv1.DaemonSet {
				return &appsv1.DaemonSet{ObjectMeta: named(name), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: podSpec(labels)}}
			}, func(one *appsv1.DaemonSet) { one.Spec.MinReadySeconds = 3 })
			exercise(t, client.AppsV1().ReplicaSets(namespace), func(name string) *appsv1.ReplicaSet {
				return &appsv1.ReplicaSet{ObjectMeta: named(name), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: podSpec(labels)}}
			}, func(one *appsv1.ReplicaSet) { one.Spec.MinReadySeconds = 3 })
			work := podSpec(nil)
			work.Spec.RestartPolicy = corev1.RestartPolicyNever
			exercise(t, client.BatchV1().Jobs(namespace), func(name string) *batchv1.Job {
				return &batchv1.Job{ObjectMeta: named(name), Spec: batchv1.JobSpec{Template: *work.DeepCopy()}}
			}, func(one *batchv1.Job) { one.Spec.Suspend = ptr.To(true) })
			exercise(t, client.BatchV1().CronJobs(namespace), func(name string) *batchv1.CronJob {
				return &batchv1.CronJob{ObjectMeta: named(name), Spec: batchv1.CronJobSpec{
					Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: work}},
				}}
			}, func(one *batchv1.CronJob) { one.Spec.Suspend = ptr.To(true) })
			exercise(t, client.AutoscalingV2().HorizontalPodAutoscalers(namespace), func(name string) *autoscalingv2.HorizontalPodAutoscaler {
				return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named(name), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
					ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 3,
				}}
			}, func(one *autoscalingv2.HorizontalPodAutoscaler) { one.Spec.MaxReplicas = 4 })
			exercise(t, client.NetworkingV1().Ingresses(namespace), func(name string) *networkingv1.Ingress {
				return &networkingv1.Ingress{ObjectMeta: named(name), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
				}}}
			}, func(one *networkingv1.Ingress) { one.Spec.IngressClassName = ptr.To("nginx") })
			exercise(t, client.NetworkingV1().NetworkPolicies(namespace), func(name string) *networkingv1.NetworkPolicy {
				return &networkingv1.NetworkPolicy{ObjectMeta: named(name), Spec: networkingv1.NetworkPolicySpec{PodSelector: *selector}}
			}, func(one *networkingv1.NetworkPolicy) { one.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}} })
			exerciseBudgets(t, client.PolicyV1().PodDisruptionBudgets(namespace), selector)
			exercise(t, client.SchedulingV1().PriorityClasses(), func(name string) *schedulingv1.PriorityClass {
				return &schedulingv1.PriorityClass{ObjectMeta: named(name), Value: 7}
			}, func(one *schedulingv1.PriorityClass) { one.Description = "seven" })
			exercise(t, client.StorageV1().StorageClasses(), func(name string) *storagev1.StorageClass {
				return &storagev1.StorageClass{ObjectMeta: named(name), Provisioner: "none"}
			}, func(one *storagev1.StorageClass) { one.AllowVolumeExpansion = ptr.To(true) })
			checkEncoding(t, recorded, encoding.mediaType)
		})
	}
}

// exerciseBudgets goes through the life of a budget, whose status the disruption controller writes after each change of its spec.
func exerciseBudgets(t *testing.T, client typedpolicyv1.PodDisruptionBudgetInterface, selector *metav1.LabelSelector) {
	t.Helper()
	ctx := testContext(t)
	created, err := client.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: named("one"), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: selector, MinAvailable: ptr.To(intstr.FromString("50%")),
	}}, metav1.CreateOptions{})
	must(t, err)
	events, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion, FieldSelector: "metadata.name=one"})
	must(t, err)
	defer events.Stop()
	counted := func(generation int64) *policyv1.PodDisruptionBudget {
		t.Helper()
		for {
			event := receive(t, ctx, "status", events.ResultChan())
			same(t, "event", event.Type, watch.Modified)
			if one := event.Object.(*policyv1.PodDisruptionBudget); one.Status.ObservedGeneration == generation {
				return one
			}
		}
	}
	one := counted(1)
	same(t, "conditions", len(one.Status.Conditions), 1)
	same(t, "reason", one.Status.Conditions[0].Reason, policyv1.InsufficientPodsReason)
	same(t, "allowed", one.Status.DisruptionsAllowed, 0)
	got, err := client.Get(ctx, "one", metav1.GetOptions{})
	must(t, err)
	equal(t, "read", got, one)

	got.Spec.MinAvailable = ptr.To(intstr.FromInt32(1))
	updated, err := client.Update(ctx, got, metav1.UpdateOptions{})
	must(t, err)
	same(t, "generation", updated.Generation, 2)
	same(t, "wanted", counted(2).Status.DesiredHealthy, 1)
	_, err = client.Patch(ctx, "one", types.StrategicMergePatchType, []byte(`{"spec":{"minAvailable":2}}`), metav1.PatchOptions{})
	must(t, err)
	same(t, "wanted", counted(3).Status.DesiredHealthy, 2)

	must(t, client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "e2e=one"}))
	same(t, "event", receive(t, ctx, "deletion", events.ResultChan()).Type, watch.Deleted)
	_, err = client.Get(ctx, "one", metav1.GetOptions{})
	expect(t, apierrors.IsNotFound, err)
}

// TestDeployments merges, applies, scales and follows deployments and pods.
//
// Compatibility: client-go, deployments and pods installed as CRDs: defaults, strategic merge, apply, scale, status, field selectors, informers
// Feature: WatchListClient
func TestDeployments(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	installKnown(t, ctx, cluster, "pods", "deployments.apps")
	config := configFor(t, cluster)
	client := clientset(t, config)
	deployments, pods := client.AppsV1().Deployments(namespace), client.CoreV1().Pods(namespace)
	factory := informers.NewSharedInformerFactory(client, 0)
	changes, _ := handle(t, factory.Core().V1().Pods().Informer())
	lister := factory.Apps().V1().Deployments().Lister()
	synced := factory.Apps().V1().Deployments().Informer().HasSynced
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced, factory.Core().V1().Pods().Informer().HasSynced) {
		t.Fatal("no sync")
	}

	labels := map[string]string{"app": "web"}
	made, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podSpec(labels),
	}}, metav1.CreateOptions{})
	must(t, err)
	same(t, "replicas", *made.Spec.Replicas, 1)
	same(t, "strategy", made.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	container := made.Spec.Template.Spec.Containers[0]
	same(t, "pull policy", container.ImagePullPolicy, corev1.PullAlways)
	same(t, "protocol", container.Ports[0].Protocol, corev1.ProtocolTCP)
	same(t, "canonical quantity", container.Resources.Limits.Cpu().String(), "500m")
	same(t, "probe", container.LivenessProbe.PeriodSeconds, 10)

	made, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{
		"containers":[{"name":"side","image":"envoy"},{"name":"main","image":"nginx:2"}]}}}}`), metav1.PatchOptions{})
	must(t, err)
	var images []string
	for _, container := range made.Spec.Template.Spec.Containers {
		images = append(images, container.Name+" "+container.Image)
	}
	sameAll(t, "merged by name", images, []string{"side envoy", "main nginx:2"})
	same(t, "generation", made.Generation, 2)

	template := func(containers ...*corev1ac.ContainerApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
		return appsv1ac.Deployment("applied", namespace).WithSpec(appsv1ac.DeploymentSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().WithContainers(containers...))))
	}
	_, err = deployments.Apply(ctx, template(corev1ac.Container().WithName("a").WithImage("a:1")), metav1.ApplyOptions{FieldManager: "alice"})
	must(t, err)
	applied, err := deployments.Apply(ctx, template(corev1ac.Container().WithName("b").WithImage("b:1")), metav1.ApplyOptions{FieldManager: "bob"})
	must(t, err)
	same(t, "containers of both", len(applied.Spec.Template.Spec.Containers), 2)
	_, err = deployments.Apply(ctx, template(corev1ac.Container().WithName("a").WithImage("a:2")), metav1.ApplyOptions{FieldManager: "bob"})
	expect(t, apierrors.IsConflict, err)
	extracted, err := appsv1ac.ExtractDeployment(applied, "bob")
	must(t, err)
	same(t, "bob's containers", len(extracted.Spec.Template.Spec.Containers), 1)
	same(t, "bob's container", *extracted.Spec.Template.Spec.Containers[0].Name, "b")

	checkScale(t, ctx, config, appsv1.SchemeGroupVersion.WithResource("deployments"), "applied")
	form, err := deployments.GetScale(ctx, "applied", metav1.GetOptions{})
	must(t, err)
	same(t, "scale", form.Spec.Replicas, 5)
	form, err = deployments.UpdateScale(ctx, "applied", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "applied", Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 2},
	}, metav1.UpdateOptions{})
	must(t, err)
	same(t, "selector", form.Status.Selector, "app=web")
	form, err = deployments.ApplyScale(ctx, "applied", autoscalingv1ac.Scale().WithSpec(autoscalingv1ac.ScaleSpec().WithReplicas(4)),
		metav1.ApplyOptions{FieldManager: "autoscaler", Force: true})
	must(t, err)
	same(t, "scale", form.Spec.Replicas, 4)
	applied, err = deployments.Get(ctx, "applied", metav1.GetOptions{})
	must(t, err)
	same(t, "replicas", *applied.Spec.Replicas, 4)
	applied.Status.Replicas, applied.Status.ObservedGeneration = 4, applied.Generation
	applied, err = deployments.UpdateStatus(ctx, applied, metav1.UpdateOptions{})
	must(t, err)
	eventually(t, ctx, func() string {
		if one, err := lister.Deployments(namespace).Get("applied"); err != nil || one.Status.Replicas != 4 {
			return "the status has to come to the lister"
		}
		return ""
	})

	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: named("one"), Spec: podSpec(nil).Spec}, metav1.CreateOptions{})
	must(t, err)
	two := &corev1.Pod{ObjectMeta: named("two"), Spec: podSpec(nil).Spec}
	two.Spec.NodeName = "n"
	two, err = pods.Create(ctx, two, metav1.CreateOptions{})
	must(t, err)
	same(t, "phase", two.Status.Phase, corev1.PodPending)
	same(t, "class", two.Status.QOSClass, corev1.PodQOSBurstable)
	onNode, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n,status.phase=Pending"})
	must(t, err)
	same(t, "on the node", len(onNode.Items), 1)
	two.Status.Phase = corev1.PodRunning
	two.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(ctx, two, metav1.UpdateOptions{})
	must(t, err)
	_, err = pods.Patch(ctx, "two", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Initialized","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	told(t, ctx, changes, "add "+cluster+" default/one", "add "+cluster+" default/two", "update "+cluster+" default/two")
	last := receive(t, ctx, "merged conditions", changes).item.(*corev1.Pod)
	same(t, "conditions", len(last.Status.Conditions), 2)
	must(t, pods.Delete(ctx, "two", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	told(t, ctx, changes, "delete "+cluster+" default/two")
}
