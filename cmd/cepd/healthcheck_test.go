package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/rules/rulesapi"
)

// TestHealthcheck asks a listener as a container runtime would: by exit code, over TLS with a certificate that names nobody, with a
// token for reasons.
func TestHealthcheck(t *testing.T) {
	d := saying(wholeStatus{Status: job.Status{At: time.Now()}})
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if c.Request().Header.Get("Authorization") == "Bearer secret" {
				c.SetRequest(c.Request().WithContext(rulesapi.WithCaller(c.Request().Context(), rulesapi.Caller{Role: rulesapi.Viewer})))
			}
			return next(c)
		}
	})
	e.GET("/healthz", d.healthz)
	e.GET("/ready", d.ready)
	plain, secure := httptest.NewServer(e), httptest.NewUnstartedServer(e)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake that is refused
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()

	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert := write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	strange := write("strange.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("another")})))
	token := write("token", "secret\n")
	configured := func(url, tls string) string {
		listen := url[strings.LastIndex(url, "/")+1:]
		file := write(fmt.Sprintf("%s%s.yaml", strings.ReplaceAll(listen, ":", "-"), filepath.Base(tls)), fmt.Sprintf(
			"version: 1\nrules: [r.yaml]\nstreams:\n  s: {source: {file: {paths: [events.jsonl]}}, time: at}\nsinks:\n  out: {file: {path: alerts.jsonl}}\nhttp: {listen: \"%s\"%s}\n", listen, tls))
		return file
	}
	withTLS := func(cert string) string { return fmt.Sprintf(", tls: {cert_file: %s, key_file: %s}", cert, cert) }
	run := func(args ...string) (string, error) {
		cmd := newHealthcheck()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true // as the root does
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	expect := func(what, want string, wantErr string, args ...string) {
		t.Helper()
		out, err := run(args...)
		got := ""
		if err != nil {
			got = "code: " + err.Error()
			if coded, ok := errors.AsType[*codedError](err); !ok || coded.code != exitFailed {
				t.Errorf("%s: %v is no failure", what, err)
			}
		}
		if out != want || (wantErr == "") != (err == nil) || !strings.Contains(got, wantErr) {
			t.Errorf("%s: %q, %s; want %q, %s", what, out, got, want, wantErr)
		}
	}
	file := configured(plain.URL, "")
	expect("alive", "ok\n", "", "-c", file)
	expect("ready", "ready\n", "", "-c", file, "--ready")
	expect("over TLS", "ok\n", "", "-c", configured(secure.URL, withTLS(cert)))
	expect("another certificate", "", errOtherCertificate.Error(), "-c", configured(secure.URL, withTLS(strange)))
	expect("no listener", "", "http.listen is off", "-c", file, "--set", "http.listen=off")
	expect("nobody there", "", "refused", "-c", file, "--set", "http.listen=127.0.0.1:1")
	expect("somebody else", "", "not how cepd does", "-c", configured(other.URL, ""))
	expect("no file", "", "name the file with -c", "-c", filepath.Join(dir, "none.yaml"))
	expect("mistakes", "", "the configuration has mistakes", "-c", write("bad.yaml", "version: 1\nstream: {}\n"))

	d.say(wholeStatus{Status: job.Status{At: time.Now(), Degraded: []job.Degradation{{What: "sink", Name: "bus", Reason: "refused"}, {What: "epoch", Reason: "disk full"}}}})
	expect("degraded is alive", "ok\n", "", "-c", file)
	expect("not ready", "degraded\n", "code", "-c", file, "--ready")
	expect("not ready, with reasons", "degraded\nsink bus: refused\nepoch: disk full\n", "code", "-c", file, "--ready", "--token-file", token)
}

func TestOwnAddress(t *testing.T) {
	for listen, want := range map[string]string{
		":8642": "localhost:8642", "0.0.0.0:8642": "127.0.0.1:8642", "[::]:8642": "[::1]:8642", "10.0.0.7:80": "10.0.0.7:80", "[fe80::1]:80": "[fe80::1]:80", "host:80": "host:80",
	} {
		if got, err := ownAddress(listen); err != nil || got != want {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
	if _, err := ownAddress("nothing"); err == nil {
		t.Error("no port")
	}
}
