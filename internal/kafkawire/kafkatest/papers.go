package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The one user of all clusters.
const (
	user     = "cepd"
	password = "correct-horse"
)

// papers are the certificates of a cluster, as files: that of an authority that nobody else knows, and those of a server on
// the loopback address and of a client, signed by it.
type papers struct {
	ca                    string
	serverCert, serverKey string
	clientCert, clientKey string
	pool                  *x509.CertPool
	serverPair, pair      tls.Certificate
}

func newPapers(t testing.TB, dir string) *papers {
	t.Helper()
	p, err := makePapers(dir)
	if err != nil {
		t.Fatalf("certificates: %v", err)
	}
	return p
}

// readPapers returns those that makePapers has written into a directory, as a client of another process sees them.
func readPapers(dir string) (*papers, error) {
	p := &papers{
		pool: x509.NewCertPool(), ca: filepath.Join(dir, "ca.pem"),
		clientCert: filepath.Join(dir, "client.pem"), clientKey: filepath.Join(dir, "client.key"),
	}
	text, err := os.ReadFile(p.ca)
	if err != nil {
		return nil, err
	}
	if !p.pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s is no certificate", p.ca)
	}
	p.pair, err = tls.LoadX509KeyPair(p.clientCert, p.clientKey)
	return p, err
}

// makePapers writes new certificates into a directory.
func makePapers(dir string) (*papers, error) {
	now := time.Now()
	serial := int64(0)
	template := func(name string) *x509.Certificate {
		serial++
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour), // a broker for people runs for long
			BasicConstraintsValid: true,
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := template("cepd test authority")
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return nil, err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	p := &papers{pool: x509.NewCertPool(), ca: filepath.Join(dir, "ca.pem")}
	p.pool.AddCert(authority)
	if err := writePEM(p.ca, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	sign := func(name string, use x509.ExtKeyUsage) (cert, keyFile string, pair tls.Certificate, err error) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return "", "", pair, err
		}
		c := template(name)
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{use}
		c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
		der, err := x509.CreateCertificate(rand.Reader, c, authority, own.Public(), key)
		if err != nil {
			return "", "", pair, err
		}
		secret, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			return "", "", pair, err
		}
		cert, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
		if err := writePEM(cert, "CERTIFICATE", der); err != nil {
			return "", "", pair, err
		}
		if err := writePEM(keyFile, "PRIVATE KEY", secret); err != nil {
			return "", "", pair, err
		}
		pair, err = tls.LoadX509KeyPair(cert, keyFile)
		return cert, keyFile, pair, err
	}
	if p.serverCert, p.serverKey, p.serverPair, err = sign("server", x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if p.clientCert, p.clientKey, p.pair, err = sign("client", x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	return p, nil
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// client is the configuration of a client that knows the authority; showing says that it shows its own certificate too.
func (p *papers) client() *tls.Config {
	return &tls.Config{RootCAs: p.pool, MinVersion: tls.VersionTLS12}
}

func (p *papers) showing() *tls.Config {
	c := p.client()
	c.Certificates = []tls.Certificate{p.pair}
	return c
}

func (p *papers) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.serverPair}, MinVersion: tls.VersionTLS12}
}

// protection names a way in; see Endpoint.
func protection(encrypted bool, mechanism string) string {
	name := map[string]string{"": "plain", "PLAIN": "sasl-plain", "SCRAM-SHA-256": "sasl-scram-256", "SCRAM-SHA-512": "sasl-scram-512"}[mechanism]
	switch {
	case name == "":
		panic(fmt.Sprintf("kafkatest: no mechanism %q", mechanism))
	case encrypted && mechanism == "":
		return "tls"
	case encrypted:
		return "tls-" + name
	}
	return name
}

// mechanism is that of franz-go, nil where no password is asked for.
func (e Endpoint) mechanism() sasl.Mechanism {
	switch e.Mechanism {
	case "PLAIN":
		return plain.Auth{User: e.User, Pass: e.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: e.User, Pass: e.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: e.User, Pass: e.Password}.AsSha512Mechanism()
	}
	return nil
}
