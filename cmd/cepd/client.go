package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// serverDefault is where a job listens whose configuration does not say otherwise.
	serverDefault = "http://" + config.DefaultListen
	// replyMax is the size of the largest answer that is read: all managed rules, which a server takes 32 MiB of.
	replyMax = 64 << 20
	// askTimeout is how long an answer may take where nobody says: a change waits for an epoch, for two minutes at most.
	askTimeout = 150 * time.Second
)

// clientFlags say which job is spoken to, and as who.
type clientFlags struct {
	server, tokenFile, ca, certificate, key string
	timeout                                 time.Duration
}

func (f *clientFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`URL` of the job's listener (CEPD_SERVER; else "+serverDefault+")")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token to show (CEPD_TOKEN_FILE)")
	flags.StringVar(&f.ca, "ca-file", "", "`FILE` with the certificates to trust, in place of the system's")
	flags.StringVar(&f.certificate, "cert-file", "", "`FILE` with the certificate to show, where the job asks for one")
	flags.StringVar(&f.key, "key-file", "", "`FILE` with its key")
	flags.DurationVar(&f.timeout, "timeout", askTimeout, "how long an answer may take")
}

// remote speaks to a running job.
type remote struct {
	http  *http.Client
	base  *url.URL
	token string
}

// open reads the files that the flags name.
func (f *clientFlags) open() (*remote, error) {
	address := f.server
	for _, other := range []string{os.Getenv("CEPD_SERVER"), serverDefault} {
		if address == "" {
			address = other
		}
	}
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || strings.Trim(base.Path, "/") != "" || base.User != nil {
		return nil, usagef("--server %s: write it as %s", printable(address), serverDefault)
	}
	base.Path = ""
	c := &remote{base: base}
	tokenFile := f.tokenFile
	if tokenFile == "" {
		tokenFile = os.Getenv("CEPD_TOKEN_FILE")
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, usagef("--token-file: %w", plainPath(err))
		}
		c.token = strings.TrimSpace(string(token))
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, usagef("--ca-file: %w", plainPath(err))
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca-file: there is no certificate in %s", f.ca)
		}
	}
	if (f.certificate == "") != (f.key == "") {
		return nil, usagef("--cert-file and --key-file go together")
	}
	if f.certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, usagef("--cert-file, --key-file: %w", plainPath(err))
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	if c.token != "" && base.Scheme == "http" && !isLoopback(base.Host) {
		return nil, usagef("--server %s: a token is not sent in the clear to another machine; write https://", address)
	}
	c.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment}, Timeout: f.timeout,
		// A token is for the server that was named, and for no other that it points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// question is what is asked.
type question struct {
	method, path string
	query        url.Values
	media        string
	body         []byte
	// header are further headers, names and values in turn.
	header []string
}

// reply is what came back.
type reply struct {
	etag string
	data []byte
}

// refusedError is a problem that the job answers with.
type refusedError struct {
	rulesapi.Problem
	token bool // one was shown
}

// Error says what the job says, and what to do.
func (e *refusedError) Error() string {
	text := printable(e.Problem.Error())
	switch {
	case e.Status == http.StatusUnauthorized && e.token:
		return "the job does not know the token: is it for another job, or was it taken away?"
	case e.Status == http.StatusUnauthorized:
		return "the job asks who this is: name a file with a token by --token-file (or CEPD_TOKEN_FILE)"
	case e.Status == http.StatusPreconditionFailed:
		return "somebody has changed it in the meantime: look at it again (cepd get), and decide anew"
	case e.File != "" && !strings.Contains(text, e.File):
		return text + " (" + printable(e.File) + ")"
	}
	return text
}

// do asks. The error is a *refusedError where the job answers with a problem.
func (c *remote) do(ctx context.Context, a question) (*reply, error) {
	u := *c.base
	u.Path = a.path
	u.RawPath = ""
	u.RawQuery = a.query.Encode()
	r, err := http.NewRequestWithContext(ctx, a.method, u.String(), bytes.NewReader(a.body))
	if err != nil {
		return nil, fmt.Errorf("ask the job: %w", err)
	}
	if a.media != "" {
		r.Header.Set("Content-Type", a.media)
	}
	for i := 0; i+1 < len(a.header); i += 2 {
		r.Header.Set(a.header[i], a.header[i+1])
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreached(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, replyMax+1))
	if err != nil {
		return nil, fmt.Errorf("read the job's answer: %w", err)
	}
	if len(data) > replyMax {
		return nil, fmt.Errorf("the answer is larger than %d MiB", replyMax>>20)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return &reply{response.Header.Get("ETag"), data}, nil
	}
	refused := &refusedError{token: c.token != ""}
	if json.Unmarshal(data, &refused.Problem) != nil || refused.Status == 0 {
		return nil, fmt.Errorf("%s answers %s, and that is not how cepd does; is it another program?", c.base.Host, printable(response.Status))
	}
	return nil, refused
}

// unreached says why nobody answers, without the request's address in front.
func (c *remote) unreached(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("no job answers at %s: %w; does it run, with http.listen? Name another address by --server (or CEPD_SERVER)", c.base, err)
	}
	return fmt.Errorf("ask %s: %w", c.base, err)
}

// get asks for something and decodes it.
func (c *remote) get(ctx context.Context, path string, query url.Values, to any) (*reply, error) {
	answer, err := c.do(ctx, question{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	return answer, answer.decode(to)
}

// decode reads JSON. Members that are not known are those of a newer job.
func (r *reply) decode(to any) error {
	if err := json.Unmarshal(r.data, to); err != nil {
		return fmt.Errorf("read the job's answer: %w", err)
	}
	return nil
}

// listAll asks for all pages of a list.
func listAll[T any](ctx context.Context, c *remote, path string, query url.Values) ([]T, error) {
	all := []T{}
	page := url.Values{"limit": {"1000"}}
	maps.Copy(page, query)
	for {
		var answer rulesapi.List[T]
		if _, err := c.get(ctx, path, page, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Items...)
		if answer.Next == "" || len(answer.Items) == 0 {
			return all, nil
		}
		page.Set("after", answer.Next)
	}
}

// rulePath is the path of a rule, or of something of it.
func rulePath(id string, more ...string) string {
	return strings.Join(append([]string{rulesapi.Prefix, "rules", id}, more...), "/")
}

// clientError ends a command: mistakes in rules are shown as `cepd check` shows them.
func clientError(stderr io.Writer, err error) error {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return failed(err)
	}
	if len(refused.Diagnostics) == 0 {
		return failed(refused)
	}
	if refused.Status != http.StatusUnprocessableEntity {
		newPrinter(stderr).printf("cepd: %s\n", refused)
	}
	if err := showDiagnostics(stderr, diagnosticsIn(refused.Diagnostics)); err != nil {
		return err
	}
	return silent(exitRules)
}

// diagnosticsIn are the diagnostics of an answer, fit for a terminal.
func diagnosticsIn(list []rulesapi.Diagnostic) patterns.Diagnostics {
	out := make(patterns.Diagnostics, len(list))
	for i, d := range list {
		out[i] = patterns.Diagnostic{
			Pos: patterns.Pos{File: printable(d.File), Line: d.Line, Column: d.Column}, Length: d.Length, Code: printable(d.Code),
			Message: printable(d.Message), Hint: printable(d.Hint), Rule: printable(d.Rule), Excerpt: printable(d.Excerpt), Warning: d.Severity != "error", Note: d.Severity == "note",
		}
		if d.EndLine > d.Line {
			out[i].EndLine, out[i].EndColumn = d.EndLine, d.EndColumn
		}
	}
	return out
}

// printableText is a text of several lines, fit for a terminal.
func printableText(s string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		body, end := strings.CutSuffix(line, "\n")
		parts := strings.Split(body, "\t") // tabs are harmless, and part of the text
		for i := range parts {
			parts[i] = printable(parts[i])
		}
		b.WriteString(strings.Join(parts, "\t"))
		if end {
			b.WriteString("\n")
		}
	}
	return b.String()
}
