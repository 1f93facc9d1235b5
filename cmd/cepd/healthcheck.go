package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cmd/cepd/config"
)

// answerMax is the size of the largest answer about health that is read: a line for each of some thousand degraded things.
const answerMax = 1 << 20

// healthcheckFlags are the flags of `cepd healthcheck`.
type healthcheckFlags struct {
	jobFlags
	ready     bool
	tokenFile string
	timeout   time.Duration
}

// newHealthcheck returns `cepd healthcheck`.
func newHealthcheck() *cobra.Command {
	var f healthcheckFlags
	cmd := &cobra.Command{
		Use:   "healthcheck [-c FILE] [--ready]",
		Short: "Ask the running job whether it is well, for container runtimes",
		Long: `Ask the job that a configuration describes, over its listener on this machine, whether it is alive: exit
code 0 says so, and 1 that it is not, or cannot be reached. With --ready ask whether everything is as it should be;
what is not is named, where the listener asks for tokens to those who show one.

An image without a shell can check itself with it. The listener's certificate must be that of the configuration.
A job that waits for a destination or a disk is alive, and starting it again helps nobody. Ready is for those who
want to know, and for load balancers.`,
		Example: `  # In a Dockerfile
  HEALTHCHECK CMD ["/usr/bin/cepd", "healthcheck", "-c", "/etc/cepd/cepd.yaml"]

  # What is wrong, with reasons
  cepd healthcheck --ready --token-file /etc/cepd/viewer.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return checkHealth(cmd.Context(), &f, cmd.OutOrStdout())
		},
	}
	f.add(cmd, configFile)
	flags := cmd.Flags()
	flags.BoolVar(&f.ready, "ready", false, "ask whether everything is as it should be")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with a token of a viewer, to be told what is not well")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long the answer may take")
	return cmd
}

// checkHealth asks and says what the answer was.
func checkHealth(ctx context.Context, f *healthcheckFlags, out io.Writer) error {
	c, diagnostics, err := config.Load(f.file, config.Layers{Environment: os.Environ(), Set: f.set})
	switch {
	case err != nil:
		return failed(fmt.Errorf("configuration: %w; name the file with -c FILE", plainPath(err)))
	case c == nil:
		return failed(fmt.Errorf("the configuration has mistakes, the first: %w", diagnostics.Errors()[0]))
	case c.HTTP.Listen == "off":
		return failed(errors.New("the job has no listener that could be asked: http.listen is off"))
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	answer, code, err := f.ask(ctx, &c.HTTP)
	if err != nil {
		return failed(err)
	}
	p := newPrinter(out)
	p.printf("%s\n", answer.Status)
	for _, d := range answer.Degraded {
		p.printf("%s\n", strings.TrimSuffix(strings.TrimSpace(d.What+" "+d.Name)+": "+d.Reason, ": "))
	}
	for _, l := range answer.Limits {
		p.printf("limit in use: %s of %s\n", l.Limit, l.Of)
	}
	if err := p.done(); err != nil {
		return err
	}
	if code != http.StatusOK {
		return silent(exitFailed)
	}
	return nil
}

// ask sends the request and reads the answer.
func (f *healthcheckFlags) ask(ctx context.Context, h *config.HTTP) (*condition, int, error) {
	address, err := ownAddress(h.Listen)
	if err != nil {
		return nil, 0, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	scheme := "http"
	if h.TLS.Enabled() {
		scheme = "https"
		if transport.TLSClientConfig, err = pinned(h.TLS.Certificate); err != nil {
			return nil, 0, err
		}
	}
	path := "/healthz"
	if f.ready {
		path = "/ready"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, http.NoBody)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the job: %w", err)
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, 0, fmt.Errorf("--token-file: %w", plainPath(err))
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the job: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return nil, 0, fmt.Errorf("read the job's answer: %w", err)
	}
	answer := &condition{}
	if json.Unmarshal(data, answer) != nil || answer.Status == "" {
		return nil, 0, fmt.Errorf("%s answers %s, and that is not how cepd does", address, response.Status)
	}
	return answer, response.StatusCode, nil
}

// ownAddress is where a listener is reached from its own machine.
func ownAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("http.listen: %w", err)
	}
	switch ip := net.ParseIP(host); {
	case host == "":
		host = "localhost"
	case ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

// errOtherCertificate says that somebody else listens, or that the certificate has just been changed.
var errOtherCertificate = errors.New("the listener shows another certificate than that of the configuration")

// pinned trusts the certificate in a file and no other, whatever names it has: the listener is asked by an address of this
// machine.
func pinned(file string) (*tls.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("http.tls.cert_file: %w", plainPath(err))
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("http.tls.cert_file: there is no certificate in %s", file)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // verified below, against the very certificate
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], block.Bytes) {
				return errOtherCertificate
			}
			return nil
		},
	}, nil
}
