// Command certmanager runs the webhooks of cert-manager, with the flags of its `webhook` program, and the part of its `cainjector` that
// writes `caBundle` into configurations of webhooks. Both are unmodified packages of cert-manager; only the programs around them, which
// are modules that cannot be required, are replaced.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	config "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	settings, err := options.NewWebhookConfiguration()
	must(err)
	options.AddConfigFlags(pflag.CommandLine, settings)
	pflag.Parse()
	ctrl.SetLogger(logf.Log)
	ended := make(chan error, 2)
	go func() { ended <- serve(ctx, settings) }()
	go func() { ended <- inject(ctx, settings) }()
	must(<-ended)
}

func serve(ctx context.Context, settings *config.WebhookConfiguration) error {
	server, err := webhook.NewCertManagerWebhookServer(logf.Log, *settings)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

func inject(ctx context.Context, settings *config.WebhookConfiguration) error {
	address, err := clientcmd.BuildConfigFromFlags("", settings.KubeConfig)
	if err != nil {
		return err
	}
	for _, add := range []func() error{
		func() error { return apiextensionsv1.AddToScheme(scheme.Scheme) },
		func() error { return apiregistrationv1.AddToScheme(scheme.Scheme) },
		func() error { return certmanagerv1.AddToScheme(scheme.Scheme) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(address, "cainjector"), ctrl.Options{Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	kinds := map[string]bool{cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true}
	if err := cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{EnabledReconcilersFor: kinds}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func must(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
