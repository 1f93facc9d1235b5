package rulesapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hashOf is the SHA-256 of a text in hex: its version.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// etagOf is the version as HTTP has it.
func etagOf(hash string) string { return `"` + hash + `"` }

// matches reports whether a list of ETags, as If-Match and If-None-Match have it, names a version. Proxies that compress make
// tags weak; the bytes behind them are ours all the same.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag {
			return true
		}
	}
	return false
}

// precondition says why a change may not be made of what is there, whose ETag is given; "": nothing is.
func (r *request) precondition(etag string) error {
	match, noneMatch := r.Request().Header.Get("If-Match"), r.Request().Header.Get("If-None-Match")
	stale := func(text string) error {
		p := kindStale.problem("%s", text)
		p.ETag = etag
		return p
	}
	switch {
	case noneMatch != "" && etag != "" && matches(noneMatch, etag):
		return stale("it is there already")
	case match != "" && etag == "":
		return stale("it is not there")
	case match != "" && !matches(match, etag):
		return stale("it is at another version")
	case match == "" && etag != "":
		p := kindNoMatch.problem("")
		p.ETag = etag
		return p
	}
	return nil
}

// unchanged reports whether the client has the version already.
func (r *request) unchanged(etag string) bool {
	h := r.Request().Header.Get("If-None-Match")
	return h != "" && matches(h, etag)
}
