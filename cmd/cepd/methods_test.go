package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules/rulesapi"
)

// methods are those that anybody knows, and one that nobody does.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace,
	http.MethodConnect, "PROPFIND", "get", "BREW",
}

// TestWrongMethods asks every path with every method that it does not take, while the job starts and when it runs: who may see
// anything is told what the path takes, in Allow and in words, and others are asked who they are.
func TestWrongMethods(t *testing.T) {
	d, _ := serving(t, config.HTTP{Tokens: tokensFile(t, accessText()), Rate: fast}, echoPush)
	api, err := rulesapi.New(rulesapi.Config{
		Daemon: &control{}, HistoryDir: filepath.Join(t.TempDir(), "revisions"), Feed: rulesapi.NewFeed(0, alert.AppendJSON), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string][]string{} // by path
	for _, r := range allRoutes(d) {
		takes[r.path] = append(takes[r.path], r.method)
	}
	tokens := map[string]int{"": http.StatusUnauthorized, eveToken + "x": http.StatusUnauthorized, eveToken: 0, adaToken: 0, shipToken: 0}
	for phase, router := range map[string]http.Handler{"starting": d.router(nil), "running": d.router(api)} {
		for path, taken := range takes {
			slices.Sort(taken)
			for _, method := range methods {
				for token, want := range tokens {
					if slices.Contains(taken, method) {
						continue
					}
					name := fmt.Sprintf("%s: %s %s by %q", phase, method, path, token)
					r := httptest.NewRequest(method, "/", http.NoBody)
					r.URL.Path = example(path)
					if token != "" {
						r.Header.Set("Authorization", "Bearer "+token)
					}
					w := httptest.NewRecorder()
					router.ServeHTTP(w, r)
					switch {
					case want != 0:
					case method == http.MethodOptions:
						want = http.StatusNoContent
					default:
						want = http.StatusMethodNotAllowed
					}
					if w.Code != want {
						t.Errorf("%s: %d, want %d: %s", name, w.Code, want, w.Body)
					}
					if want == http.StatusUnauthorized {
						if w.Header().Get("WWW-Authenticate") == "" || w.Header().Get("Allow") != "" {
							t.Errorf("%s: %v", name, w.Header())
						}
						continue
					}
					allow := strings.Split(w.Header().Get("Allow"), ", ")
					slices.Sort(allow)
					if all := slices.Sorted(slices.Values(append([]string{http.MethodOptions}, taken...))); !slices.Equal(allow, all) {
						t.Errorf("%s: Allow is %q, want %q", name, allow, all)
					}
					if want == http.StatusNoContent {
						continue
					}
					var p rulesapi.Problem
					if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
						t.Errorf("%s: %v: %s", name, err, w.Body)
					}
					detail := method + " is not taken here: send " + strings.Join(taken, " or ")
					if method == http.MethodPost && strings.HasPrefix(path, "/v1/streams") {
						detail = "events go to /v1/streams/{name}/events"
					}
					if p.Type != "/v1/docs#method" || p.Status != want || p.Detail != detail {
						t.Errorf("%s: %+v, want %s", name, p, detail)
					}
				}
			}
		}
	}
}
