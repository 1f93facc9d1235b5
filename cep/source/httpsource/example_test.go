package httpsource_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/httpsource"
)

func Example() {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log, err := eventlog.Open(eventlog.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = log.Close() }()
	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}})
	r := httptest.NewRequest(http.MethodPost, "/v1/streams/auth/events", strings.NewReader("{\"user\":\"root\"}\n{\"user\":\"guest\"}\n"))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output: 200 {"accepted":2,"duplicates":0}
}
