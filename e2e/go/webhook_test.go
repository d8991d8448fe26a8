package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// widgetAdmission gives widgets without replicas one, and compares them with a config map of their cluster.
type widgetAdmission struct {
	client.Reader
}

func (w widgetAdmission) Default(_ context.Context, one *Widget) error {
	if one.Spec.Replicas == nil {
		one.Spec.Replicas = ptr.To[int32](1)
	}
	return nil
}

func (w widgetAdmission) ValidateCreate(ctx context.Context, one *Widget) (admission.Warnings, error) {
	bounds := &corev1.ConfigMap{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "bounds"}, bounds); err != nil {
		return nil, err
	}
	if one.Spec.Color == bounds.Data["forbidden"] {
		return nil, fmt.Errorf("%s is forbidden here", one.Spec.Color)
	}
	return admission.Warnings{"checked for " + bounds.Data["forbidden"]}, nil
}

func (w widgetAdmission) ValidateUpdate(ctx context.Context, old, one *Widget) (admission.Warnings, error) {
	if *one.Spec.Replicas < *old.Spec.Replicas {
		return nil, apierrors.NewForbidden(widgetResource.GroupResource(), one.Name, errors.New("widgets do not shrink"))
	}
	return w.ValidateCreate(ctx, one)
}

func (w widgetAdmission) ValidateDelete(_ context.Context, one *Widget) (admission.Warnings, error) {
	if one.Annotations["keep"] != "" {
		return nil, errors.New("the widget is kept")
	}
	return nil, nil
}

// certificateFolder has a certificate for 127.0.0.1 as a webhook server of controller-runtime expects it. The second value is its `caBundle`.
func certificateFolder(t testing.TB) (string, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
	return folder, certificate
}

// freePort is a port that no program gets that asks for any.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10_000 + mathrand.IntN(20_000)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			must(t, listener.Close())
			return port
		}
	}
}

// Compatibility: controller-runtime, webhooks of a manager: defaulter and validator, for two clusters at once
// Server: --webhook-networks 127.0.0.0/8
func TestManagerWebhooks(t *testing.T) {
	ctx := testContext(t)
	type tenant struct {
		forbidden string
		warned    *warnings
		client.Client
	}
	tenants := []*tenant{}
	for _, forbidden := range []string{"red", "green"} {
		cluster := newCluster(t)
		address := configFor(t, cluster)
		install(t, ctx, address, widgetDefinition(widgetGroup))
		folder, bundle := certificateFolder(t)
		port := freePort(t)
		started := newManager(t, address, manager.Options{
			WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: folder}),
		})
		hook := widgetAdmission{started.GetAPIReader()}
		must(t, builder.WebhookManagedBy(started, &Widget{}).WithDefaulter(hook).WithValidator(hook).Complete())
		run(t, ctx, started)

		one := &tenant{forbidden: forbidden, warned: &warnings{}}
		told := configFor(t, cluster)
		told.WarningHandler = one.warned
		made, err := client.New(told, client.Options{Scheme: widgetScheme(t)})
		must(t, err)
		one.Client = made
		bounds := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bounds", Namespace: namespace}, Data: map[string]string{"forbidden": forbidden}}
		must(t, one.Create(ctx, bounds))
		clientConfig := func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d/%s", port, path)), CABundle: bundle}
		}
		rule := func(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
			return []admissionregistrationv1.RuleWithOperations{{
				Operations: operations,
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{widgetGroup}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
			}}
		}
		must(t, one.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "default.widgets.example.com", ClientConfig: clientConfig("mutate-go-example-com-v1-widget"),
				Rules: rule("CREATE", "UPDATE"), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}))
		must(t, one.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.widgets.example.com", ClientConfig: clientConfig("validate-go-example-com-v1-widget"),
				Rules: rule("CREATE", "UPDATE", "DELETE"), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}))
		tenants = append(tenants, one)
	}
	colored := func(name, color string) *Widget {
		return &Widget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: WidgetSpec{Color: color}}
	}
	for index, one := range tenants {
		// The manager serves some time after it has begun.
		eventually(t, ctx, func() string {
			if err := one.Create(ctx, colored("first", "blue"), client.DryRunAll); err != nil {
				return err.Error()
			}
			return ""
		})
		one.warned.texts = nil
		made := colored("first", tenants[1-index].forbidden)
		must(t, one.Create(ctx, made))
		same(t, "default", *made.Spec.Replicas, 1)
		sameAll(t, "warnings", one.warned.texts, []string{"checked for " + one.forbidden})

		err := one.Create(ctx, colored("second", one.forbidden))
		expect(t, apierrors.IsForbidden, err)
		same(t, "refusal", err.Error(),
			fmt.Sprintf(`admission webhook "validate.widgets.example.com" denied the request: %s is forbidden here`, one.forbidden))
		expect(t, apierrors.IsNotFound, one.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "second"}, &Widget{}))

		made.Spec.Replicas = ptr.To[int32](0)
		err = one.Update(ctx, made)
		expect(t, apierrors.IsForbidden, err)
		same(t, "refusal of an update", strings.Contains(err.Error(), `widgets.go.example.com "first" is forbidden: widgets do not shrink`), true)

		made.Spec.Replicas = ptr.To[int32](2)
		made.Annotations = map[string]string{"keep": "yes"}
		must(t, one.Update(ctx, made))
		err = one.Delete(ctx, made)
		expect(t, apierrors.IsForbidden, err)
		same(t, "refusal of a deletion", strings.HasSuffix(err.Error(), "denied the request: the widget is kept"), true)
		must(t, one.Patch(ctx, made, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"keep":null}}}`))))
		must(t, one.Delete(ctx, made))
	}
}
