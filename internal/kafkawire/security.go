package kafkawire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Mechanism is a way to show a password (KIP-12, KIP-84).
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// SASL says who we are. The password appears in no error and no log.
type SASL struct {
	Mechanism      Mechanism
	User, Password string
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // No SASL is a setting.
	}
	if s.User == "" {
		return nil, errors.New("sasl: the user is empty")
	}
	switch s.Mechanism {
	case Plain:
		return plain.Mechanism{Username: s.User, Password: s.Password}, nil
	case ScramSHA256:
		return scramMechanism(scram.SHA256, s)
	case ScramSHA512:
		return scramMechanism(scram.SHA512, s)
	default:
		return nil, fmt.Errorf("sasl: unknown mechanism %q: %s, %s or %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512)
	}
}

func scramMechanism(a scram.Algorithm, s *SASL) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(a, s.User, s.Password)
	if err != nil {
		return nil, fmt.Errorf("sasl: user or password hold characters that SCRAM forbids: %w", err)
	}
	return m, nil
}

// explain adds to an error of a connection what it means for the configuration. Brokers say little to a client that speaks
// the wrong protocol: they hang up.
func (c *Client) explain(err error) error {
	var (
		record   tls.RecordHeaderError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		expired  x509.CertificateInvalidError
	)
	secure, user := c.config.TLS != nil, c.config.SASL
	switch {
	case errors.As(err, &record):
		return &securityError{"the port does not speak TLS: leave tls out, or use the broker's TLS port", err}
	case errors.As(err, &unknown):
		return &securityError{"the broker's certificate is signed by nobody we trust: give its CA file", err}
	case errors.As(err, &hostname):
		return &securityError{"the broker's certificate is for another name: use the name in it, or set the server name", err}
	case errors.As(err, &expired):
		return &securityError{"the broker's certificate is not valid", err}
	case secure && strings.Contains(err.Error(), "remote error: tls: handshake failure"):
		return &securityError{"the broker refuses the connection: where it wants a certificate of its clients, give a certificate and its key", err}
	case secure && refusedOurs(err) && c.config.TLS.GetClientCertificate == nil && len(c.config.TLS.Certificates) == 0:
		return &securityError{"the broker wants a certificate of its clients: give a certificate and its key", err}
	case secure && refusedOurs(err):
		return &securityError{"the broker does not accept the certificate that is shown to it", err}
	case !secure && strings.Contains(err.Error(), "expecting TLS"):
		return &securityError{"the port speaks TLS: configure tls", err}
	case errors.Is(err, CodeSASLAuthentication) && user != nil:
		return &securityError{fmt.Sprintf("the broker refused user %q by %s: wrong user or password", user.User, user.Mechanism), err}
	case errors.Is(err, CodeIllegalSASLState) && user != nil:
		return &securityError{"the port asks for no password: leave sasl out, or use the broker's SASL port", err}
	case errors.Is(err, CodeUnsupportedMechanism) && user != nil:
		return &securityError{fmt.Sprintf("the broker does not offer %s", user.Mechanism), err}
	case hungUp(err) && user == nil && !secure && !c.reached.Load():
		return fmt.Errorf("the broker hung up before it said anything: it may want TLS or SASL: %w", err)
	case hungUp(err) && user == nil && secure && !c.reached.Load():
		return fmt.Errorf("the broker hung up before it said anything: it may want SASL, or no TLS: %w", err)
	case hungUp(err) && user != nil && !c.reached.Load():
		return fmt.Errorf("the broker hung up before it said anything: it may want no SASL, or TLS: %w", err)
	}
	return err
}

// refusedOurs says that a broker has ended a handshake because of what its client has shown. The type of such an alert is not
// exported.
func refusedOurs(err error) bool {
	text := err.Error()
	_, alert, remote := strings.Cut(text, "remote error: tls: ")
	return remote && strings.Contains(alert, "certificate")
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// securityError is a refusal that only a change of configuration mends.
type securityError struct {
	what string
	err  error
}

func (e *securityError) Error() string { return e.what + " (" + e.err.Error() + ")" }
func (e *securityError) Unwrap() error { return e.err }
