package kcptest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kcp-py/kcp-py/sdk/go/kcptest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

var maps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
	}}
}

func clients(t *testing.T, cluster *kcptest.Cluster) dynamic.ResourceInterface {
	t.Helper()
	made, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return made.Resource(maps).Namespace("default")
}

// TestClustersShareNothing: two clusters of one server, used at once, and both in one watch.
func TestClustersShareNothing(t *testing.T) {
	server := kcptest.Shared(t)
	one, two := kcptest.NewCluster(t), kcptest.NewCluster(t)
	all, err := dynamic.NewForConfig(server.Cluster(kcptest.Wildcard).Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := all.Resource(maps).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := clients(t, one).Create(ctx, configMap("mine"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients(t, two).Get(ctx, "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v", err)
	}
	if _, err := clients(t, two).Create(ctx, configMap("mine"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range []*kcptest.Cluster{one, two} {
		event := <-watch.ResultChan()
		found, ok := event.Object.(*unstructured.Unstructured)
		if !ok || found.GetAnnotations()["kcp.io/cluster"] != cluster.Name {
			t.Fatalf("got %v instead of an object in %s", event.Object, cluster.Name)
		}
	}
}

// TestKubeconfigs: the files lead to the cluster, and the one of the server to root.
func TestKubeconfigs(t *testing.T) {
	cluster := kcptest.NewCluster(t)
	config, err := clientcmd.BuildConfigFromFlags("", cluster.KubeconfigFile(t))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != cluster.Config().Host {
		t.Fatalf("got %s", config.Host)
	}
	config, err = clientcmd.BuildConfigFromFlags("", kcptest.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(config.Host, kcptest.Shared(t).URL()) {
		t.Fatalf("got %s", config.Host)
	}
}

// TestServersOfTheirOwn: a server with other flags ends when it is told to, and takes its files with it.
func TestServersOfTheirOwn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := kcptest.Start(ctx, kcptest.Options{Args: []string{"--controllers="}})
	if err != nil {
		t.Fatal(err)
	}
	path := server.Kubeconfig()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("%s is still there", path)
	}
}

// TestStartsThatFail: a wrong flag and a missing command are errors, and so is the end of the context.
func TestStartsThatFail(t *testing.T) {
	if _, err := kcptest.Start(t.Context(), kcptest.Options{Args: []string{"--frobnicate"}}); err == nil {
		t.Fatal("a wrong flag is no error")
	}
	_, err := kcptest.Start(t.Context(), kcptest.Options{Command: []string{"/nonexistent/kcp-py"}})
	if err == nil || !strings.Contains(err.Error(), kcptest.Command) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kcptest.Start(ctx, kcptest.Options{}); err == nil {
		t.Fatal("the end of the context is no error")
	}
}
