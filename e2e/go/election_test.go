package e2e

import (
	"context"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate runs for leadership until its context ends.
type candidate struct {
	leads, lost, done chan struct{}
	stop              context.CancelFunc
}

func stand(t *testing.T, ctx context.Context, config *rest.Config, identity string, release bool) *candidate {
	t.Helper()
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, "leader",
		resourcelock.ResourceLockConfig{Identity: identity}, config, 5*time.Second)
	must(t, err)
	made := &candidate{leads: make(chan struct{}), lost: make(chan struct{}), done: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: "e2e", ReleaseOnCancel: release,
		LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(made.leads) },
			OnStoppedLeading: func() { close(made.lost) },
		},
	})
	must(t, err)
	ctx, made.stop = context.WithCancel(ctx)
	t.Cleanup(made.stop)
	go func() {
		defer close(made.done)
		elector.Run(ctx)
	}()
	return made
}

// TestLeaderElection hands leadership over, when the leader goes and when it is cut off.
//
// Compatibility: client-go, leader election on Leases: handover on release and on expiry
func TestLeaderElection(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	config := configFor(t, cluster)
	leases := clientset(t, config).CoordinationV1().Leases(namespace)
	holder := func() string {
		t.Helper()
		lease, err := leases.Get(ctx, "leader", metav1.GetOptions{})
		must(t, err)
		return *lease.Spec.HolderIdentity
	}

	first := stand(t, ctx, config, "first", true)
	receiveClosed(t, ctx, "the first leads", first.leads)
	same(t, "holder", holder(), "first")
	var down atomic.Bool
	unreliable := configFor(t, cluster)
	recordAll(unreliable).intercept(func(*http.Request) error {
		if down.Load() {
			return syscall.ECONNREFUSED
		}
		return nil
	})
	second := stand(t, ctx, unreliable, "second", false)
	first.stop()
	receiveClosed(t, ctx, "the first has stopped", first.done)
	receiveClosed(t, ctx, "the second leads", second.leads)
	same(t, "holder", holder(), "second")

	third := stand(t, ctx, config, "third", true)
	down.Store(true)
	receiveClosed(t, ctx, "the second has lost", second.lost)
	receiveClosed(t, ctx, "the third leads", third.leads)
	lease, err := leases.Get(ctx, "leader", metav1.GetOptions{})
	must(t, err)
	same(t, "holder", *lease.Spec.HolderIdentity, "third")
	same(t, "transitions", *lease.Spec.LeaseTransitions >= 2, true)
}

func receiveClosed(t *testing.T, ctx context.Context, what string, from <-chan struct{}) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	case <-ctx.Done():
		t.Fatalf("%s: %v", what, ctx.Err())
	}
}
