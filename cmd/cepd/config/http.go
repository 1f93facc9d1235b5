package config

import (
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
)

// HTTP is the listener.
type HTTP struct {
	// Listen is HOST:PORT; "off": none.
	Listen string
	// Body is the largest request.
	Body int64
	// Insecure admits an address that others reach although nobody is asked who they are.
	Insecure bool
	// Tokens is the file of who may what; "": everybody who reaches the listener may everything.
	Tokens string
	TLS    ListenerTLS
	// TrustedProxies are networks of proxies whose word for where a request comes from is taken.
	TrustedProxies []netip.Prefix
	// Rate is how many requests a client may send in a second, and twice as many at once; 0: any number.
	Rate int
	// Admin is HOST:PORT of the listener for profiles, on a loopback address; "off": none.
	Admin string
	// Audit is the file in which every change is noted.
	Audit string
}

// ListenerTLS says how the listener is protected. The files are in PEM form.
type ListenerTLS struct {
	// Certificate and Key are shown to clients; without them there is no TLS.
	Certificate, Key string
	// ClientCA are the authorities of clients' certificates, which may then be shown in place of tokens.
	ClientCA string
}

// Enabled reports whether the listener speaks TLS.
func (t *ListenerTLS) Enabled() bool { return t.Certificate != "" }

// Loopback reports whether the listener can be reached from its own machine alone.
func (h *HTTP) Loopback() bool { return h.Listen == "off" || onlyLoopback([]string{h.Listen}) }

// SaysListener reports whether anything was said about listeners. Where nothing was there is one because jobs have one, and nobody
// may need it.
func (c *Config) SaysListener() bool {
	for path := range c.places {
		if strings.HasPrefix(path, "http.") {
			return true
		}
	}
	return false
}

// Reload says how changes of the rules are noticed.
type Reload struct {
	// Watch looks at the files of the rules and reads them again when they change.
	Watch bool
	// Debounce is how long the files must have been at rest.
	Debounce cep.Duration
	// Rehash is how often the files are read whatever the system says of them.
	Rehash cep.Duration
}

func (h *HTTP) settings() section {
	return section{
		{name: "listen", about: "HOST:PORT, or `off`. Port 0 takes a free one, which the log names. Where others than this machine reach it, `tokens` are needed.", value: text(&h.Listen, "address, or `off`", isListen)},
		{name: "body", about: "The largest body of a request.", value: size(&h.Body, bounds[int64]{
			kibi, gibi, "a body is read whole before its events are answered for",
		})},
		{name: "insecure", about: "Listen where others reach it without asking who they are.", value: yes(&h.Insecure)},
		{name: "tokens", about: "The file of who may what: docs/security.md. It is read again when it changes. Without one, whoever reaches the listener may everything.", value: path(&h.Tokens, "path")},
		{name: "tls", about: "How the listener is protected. The files are read again when they change.", value: section{
			{name: "cert_file", about: "The certificate that clients see, with those above it.", value: path(&h.TLS.Certificate, "path of a PEM file")},
			{name: "key_file", about: "Its key.", value: path(&h.TLS.Key, "path of a PEM file")},
			{name: "client_ca_file", about: "The authorities of clients' certificates: a client may show one in place of a token, and `tokens` says what it may.", value: path(&h.TLS.ClientCA, "path of a PEM file")},
		}},
		{name: "trusted_proxies", about: "Networks of proxies whose word is taken for where a request comes from.", value: networks(&h.TrustedProxies)},
		{name: "rate", about: "How many requests a client may send in a second, and twice as many at once; 0: as many as it likes.", value: number(&h.Rate, bounds[int]{
			0, 100_000, "more is no bound",
		})},
		{name: "admin", about: "HOST:PORT of a second listener, for profiles, on a loopback address; or `off`.", value: text(&h.Admin, "address, or `off`", isAdmin)},
		{name: "audit", about: "The file in which every change is noted; without one it is audit.jsonl below `checkpoint.path`.", value: path(&h.Audit, "path")},
	}
}

func (l *Reload) settings() section {
	return section{
		{name: "watch", about: "Read the rules again when their files change. SIGHUP and the API do so in any case.", value: yes(&l.Watch)},
		{name: "debounce", about: "How long the files must have been at rest before they are read.", value: duration(&l.Debounce, bounds[cep.Duration]{
			10 * time.Millisecond, minute, "an editor or git writes files one after the other; above, nobody waits",
		})},
		{name: "rehash", about: "How often the files are read although nothing was said to have changed: over some file systems nothing ever is.", value: duration(&l.Rehash, bounds[cep.Duration]{
			second, hour, "all rules are read each time",
		})},
	}
}

// isListen checks the address of a listener.
func isListen(s string) *mistake {
	if s == "off" {
		return nil
	}
	if _, err := hostPort(s); err != nil {
		return mistakef(codeAddress, "write HOST:PORT, as "+DefaultListen+", or off", "%q is no address: %v", s, err)
	}
	return nil
}

// isAdmin checks the address of the listener for profiles, which show what is in memory.
func isAdmin(s string) *mistake {
	if s == "off" {
		return nil
	}
	host, err := hostPort(s)
	switch {
	case err != nil:
		return mistakef(codeAddress, "write HOST:PORT, as 127.0.0.1:8081, or off", "%q is no address: %v", s, err)
	case !isLoopback(host):
		return mistakef(codeAddress, "write 127.0.0.1:PORT or [::1]:PORT", "%s may be reached from elsewhere, and profiles show what is in memory", s)
	}
	return nil
}

// listener checks what does not fit together in the listener, and fills in what depends on other settings.
func (r *reader) listener() {
	h := &r.config.HTTP
	if !r.said("http.audit") {
		h.Audit = filepath.Join(r.config.Checkpoint.Path, "audit.jsonl")
	}
	if (h.TLS.Certificate == "") != (h.TLS.Key == "") {
		r.report(r.placeOf("http.tls.cert_file", "http.tls.key_file"), codeContradicts, "", "a certificate and its key stand together")
	} else if h.TLS.ClientCA != "" && !h.TLS.Enabled() {
		r.report(r.placeOf("http.tls.client_ca_file"), codeContradicts, "write cert_file and key_file", "clients show certificates where the listener speaks TLS alone")
	}
	if h.Admin != "off" && h.Admin == h.Listen {
		r.report(r.placeOf("http.admin"), codeContradicts, "choose another port", "the address is that of http.listen")
	}
	if r.wrong["http.listen"] || h.Loopback() {
		return
	}
	at := r.placeOf("http.listen")
	switch {
	case h.Tokens == "" && h.TLS.ClientCA == "" && !h.Insecure && !r.wrong["http.tokens"]:
		r.report(at, codeOpen, "write tokens: PATH (cepd token makes one), or 127.0.0.1:PORT, or insecure: true",
			"%s may be reached from elsewhere, and nobody is asked who they are", h.Listen)
	case h.Tokens != "" && !h.TLS.Enabled() && len(h.TrustedProxies) == 0:
		r.warn(at, codePlainText, "write tls: {cert_file: PATH, key_file: PATH}, or the networks of trusted_proxies that do it", "tokens without TLS are shown to whoever reads the connection")
	}
}
