package kcptest_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-py/kcp-py/sdk/go/kcptest"
)

// Requests to one cluster fail as often as the rule says, and those to other clusters do not.
func TestFaults(t *testing.T) {
	t.Parallel()
	one, other := kcptest.NewCluster(t), kcptest.NewCluster(t)
	var ended *kcptest.AddedFault
	t.Run("conflict", func(t *testing.T) {
		fault := one.AddFault(t, kcptest.Fault{Kind: "conflict", Resource: "configmaps", Verb: "create", Times: 1})
		ended = one.AddFault(t, kcptest.Fault{Kind: "internalError"})
		ended.Remove(t)
		if _, err := clients(t, other).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := clients(t, one).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
			t.Fatalf("got %v", err)
		}
		if _, err := clients(t, one).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if happened := fault.Happened(t); happened != 1 {
			t.Fatalf("happened %d times", happened)
		}
		one.AddFault(t, kcptest.Fault{Kind: "storageError", Error: "full"})
		if _, err := clients(t, one).Create(t.Context(), configMap("b"), metav1.CreateOptions{}); err == nil {
			t.Fatal("the store is not full")
		}
	})
	// The rules have ended with their test.
	if _, err := clients(t, one).Create(t.Context(), configMap("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A watch that runs ends with the event that its controller has to understand.
func TestEndWatches(t *testing.T) {
	t.Parallel()
	cluster := kcptest.NewCluster(t)
	listed, err := clients(t, cluster).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := clients(t, cluster).Watch(t.Context(), metav1.ListOptions{ResourceVersion: listed.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if ended := kcptest.NewCluster(t).EndWatches(t, "end"); ended != 0 {
		t.Fatalf("%d watches of a new cluster", ended)
	}
	if ended := cluster.EndWatches(t, "expired"); ended != 1 {
		t.Fatalf("ended %d watches", ended)
	}
	if event := <-watch.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Fatalf("got %v", event)
	}
}

// Time passes for the server alone, and its controllers have done their work when it has.
func TestAdvance(t *testing.T) {
	t.Parallel()
	server, err := kcptest.Start(t.Context(), kcptest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	server.Settle(t)
	before := server.Now(t)
	after := server.Advance(t, 24*time.Hour)
	if passed := after.Sub(before); passed < 24*time.Hour || passed > 25*time.Hour {
		t.Fatalf("%v have passed", passed)
	}
	cluster := server.NewCluster(t)
	made, err := clients(t, cluster).Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at := made.GetCreationTimestamp(); at.Time.Before(after.Truncate(time.Second)) {
		t.Fatalf("made at %v", at)
	}
}
