package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cepd/cepd/cmd/cepd/config"
)

// certificates are what the listener shows, and the authorities whose certificates it believes. Connections that begin after
// read have the new ones.
type certificates struct {
	files   config.ListenerTLS
	current atomic.Pointer[tls.Config]
}

// newCertificates reads the files.
func newCertificates(files config.ListenerTLS) (*certificates, error) {
	c := &certificates{files: files}
	return c, c.read()
}

// read reads the files again. After an error what was read before goes on being used.
func (c *certificates) read() error {
	pair, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return fmt.Errorf("http.tls: %w", plainPath(err))
	}
	next := &tls.Config{
		Certificates: []tls.Certificate{pair},
		// Shippers of events live long: some know nothing newer.
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		pem, err := os.ReadFile(c.files.ClientCA)
		if err != nil {
			return fmt.Errorf("http.tls.client_ca: %w", plainPath(err))
		}
		next.ClientCAs = x509.NewCertPool()
		if !next.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("http.tls.client_ca: %s: %w", c.files.ClientCA, errors.New("no certificate in PEM form is in it"))
		}
		// Who has none may have a token, or ask for the health only. What may be asked without either is decided route by route.
		next.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.current.Store(next)
	return nil
}

// config is that of the server.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}
