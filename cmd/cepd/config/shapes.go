package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	nameShape   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	streamShape = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,248}$`)
)

// isName checks names of jobs and sinks: they are parts of keys at destinations and of file names.
func isName(s string) *mistake {
	if !nameShape.MatchString(s) {
		return mistakef(codeName, "small letters, digits, _ and -, at most 64", "%q cannot be a name here", s)
	}
	return nil
}

// isStream checks names of streams, which are those of rules.
func isStream(s string) *mistake {
	switch {
	case s == "alerts":
		return mistakef(codeName, "", `the stream "alerts" is that of the rules' own alerts`)
	case !streamShape.MatchString(s):
		return mistakef(codeName, "letters, digits, ., _ and -, at most 249", "%q cannot be the name of a stream", s)
	}
	return nil
}

func isField(s string) *mistake {
	if s == "" || slices.Contains(strings.Split(s, "."), "") {
		return mistakef(codeName, "", "%q is no path of a field, as user.name is", s)
	}
	return nil
}

// isAddress checks the address of a server.
func isAddress(s string) *mistake {
	if strings.HasPrefix(s, "/") {
		return nil // a unix socket
	}
	if host, err := hostPort(s); err != nil {
		return mistakef(codeAddress, "write HOST:PORT", "%q is no address: %v", s, err)
	} else if host == "" {
		return mistakef(codeAddress, "write HOST:PORT", "%q has no host", s)
	}
	return nil
}

func hostPort(s string) (host string, err error) {
	host, port, err := net.SplitHostPort(s)
	if e := (*net.AddrError)(nil); errors.As(err, &e) {
		return "", errors.New(e.Err) // without the address, which the caller says
	} else if err != nil {
		return "", err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("the port %q is none of 0 to 65535", port)
	}
	return host, nil
}

// isURL checks where webhooks go.
func isURL(s string) *mistake {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return mistakef(codeAddress, "", "%q is no URL", s) // the error may repeat a password
	case u.User != nil:
		return mistakef(codeSecret, "write authorization_file: PATH, or let the receiver check the signature that secret_file makes", "the URL holds a user and password")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return mistakef(codeAddress, "", "%q is no URL that begins with https:// or http://", s)
	}
	return nil
}

// isSource checks the source of CloudEvents, a reference to a URI that is not empty.
func isSource(s string) *mistake {
	if _, err := url.Parse(s); err != nil || s == "" || strings.ContainsAny(s, " \t\n") {
		return mistakef(codeAddress, "write a path as /cepd/fraud, or a URI", "%q is no reference to a URI", s)
	}
	return nil
}

// isKey checks the name of a key or channel.
func isKey(s string) *mistake {
	// Keys may have any bytes and 512 MiB; a name that people write has neither spaces nor so many.
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return mistakef(codeName, "at most 512 bytes without spaces", "%q cannot be a name here", s)
	}
	return nil
}

var headerShape = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

// isHeader checks a header that the user adds.
func isHeader(name, text string) *mistake {
	switch {
	case !headerShape.MatchString(name):
		return mistakef(codeName, "", "%q cannot be the name of a header", name)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return mistakef(codeName, "", "the header %s holds characters that a header cannot have", name)
	case slices.Contains([]string{"authorization", "cookie", "proxy-authorization"}, strings.ToLower(name)):
		return mistakef(codeSecret, "write authorization_file: PATH, or let the receiver check the signature that secret_file makes", "the header %s holds a secret", name)
	}
	return nil
}
