package redissink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// certificate writes a certificate for the loopback address and its key, and returns their files.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// Encrypted connections: who is trusted, what name, our own certificate, and that one which ends with its context ends here too.
func TestTLS(t *testing.T) {
	p := redistest.Default(t)
	if probe := redistest.Start(t, p); probe.Must(t, "CONFIG", "GET", "tls-port") == nil || len(probe.Must(t, "CONFIG", "GET", "tls-port").([]any)) == 0 {
		t.Skipf("no redis-server with TLS: %s is built without it; apt-get install redis-server brings one, and it must be the first in PATH", p)
	}
	cert, key := certificate(t, "server")
	srv, address := redistest.StartTLS(t, p, cert, key)
	j := &journal{}
	s := newSink(t, address, func(c *Config) { c.TLS = &TLS{CA: cert, Cert: cert, Key: key} })
	open(t, s)
	put(t, s, j.batch(1, 0, 10))
	stream(t, srv, "alerts", j, 1, 1, 10)
	named := newSink(t, address, func(c *Config) { c.TLS = &TLS{CA: cert, Cert: cert, Key: key, ServerName: "redis.test"} })
	open(t, named)

	other, otherKey := certificate(t, "other")
	for what, c := range map[string]struct {
		tls  *TLS
		want string
	}{
		"an unknown authority":      {&TLS{Cert: cert, Key: key}, "certificate signed by unknown authority"},
		"another authority":         {&TLS{CA: other, Cert: cert, Key: key}, "certificate"},
		"another name":              {&TLS{CA: cert, Cert: cert, Key: key, ServerName: "elsewhere.test"}, "elsewhere.test"},
		"no certificate of ours":    {&TLS{CA: cert}, ""},
		"a certificate of nobody":   {&TLS{CA: cert, Cert: other, Key: otherKey}, ""},
		"no encryption at its port": {nil, ""},
	} {
		_, err := newSink(t, address, func(cfg *Config) { cfg.TLS = c.tls }).Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, sinks.ErrStop) {
			t.Errorf("%s: %v, want one that may pass with %q", what, err, c.want)
		}
	}
	proxy := redistest.NewProxy(t, address)
	slow := newSink(t, proxy.Address(), func(c *Config) { c.TLS = &TLS{CA: cert, Cert: cert, Key: key} })
	open(t, slow)
	proxy.Cut()
	if _, err := publishAgain(t, slow, j.batch(1, 10, 1)); err != nil {
		t.Fatal(err)
	}
}
