package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cepd/cepd/sinks/webhooksink"
)

// patience is how long a script waits for something to happen: a loaded machine takes seconds for what takes milliseconds.
const patience = 30 * time.Second

// until waits for a job that runs beside the script: until FILE REGEXP [COUNT] waits for at least COUNT matches, 1 where none
// is said, in a file that may not be there yet.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: until FILE REGEXP [COUNT]")
	}
	want := 1
	if len(args) == 3 {
		var err error
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if text, err = os.ReadFile(ts.MkAbs(args[0])); err == nil && len(re.FindAllIndex(text, -1)) >= want {
			return
		}
	}
	ts.Fatalf("%s has not %d of %s after %s, but holds:\n%s", args[0], want, args[1], patience, text)
}

// matches holds a file to a number of matches: matches FILE REGEXP COUNT.
func matches(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: matches FILE REGEXP COUNT")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	if text := ts.ReadFile(args[0]); len(re.FindAllString(text, -1)) != want {
		ts.Fatalf("%s holds %d of %s, not %d:\n%s", args[0], len(re.FindAllString(text, -1)), args[1], want, text)
	}
}

// appendTo appends files to a file, as programs that log do: append TARGET FILE...
func appendTo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: append TARGET FILE...")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	for _, name := range args[1:] {
		_, err := f.WriteString(ts.ReadFile(name))
		ts.Check(err)
	}
	ts.Check(f.Close())
}

// request sends a request to a job, whose log says where it listens: request LOG METHOD PATH STATUS [BODY [NAME:VALUE...]].
// The answer is left in the file "answer".
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: request LOG METHOD PATH STATUS [BODY [NAME:VALUE...]]")
	}
	at := regexp.MustCompile(`listening address=(\S+)`).FindStringSubmatch(ts.ReadFile(args[0]))
	if at == nil {
		ts.Fatalf("%s does not say where the job listens", args[0])
	}
	var body io.Reader = http.NoBody
	if len(args) > 4 {
		body = bytes.NewReader([]byte(ts.ReadFile(args[4])))
	}
	r, err := http.NewRequest(args[1], "http://"+at[1]+args[2], body)
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	if len(args) > 4 && strings.HasSuffix(args[4], ".jsonl") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	for _, h := range args[min(5, len(args)):] {
		name, value, _ := strings.Cut(h, ":")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	client := http.Client{Timeout: patience}
	answer, err := client.Do(r)
	ts.Check(err)
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	ts.Check(os.WriteFile(ts.MkAbs("answer"), text, 0o600))
	if strconv.Itoa(answer.StatusCode) != args[3] {
		ts.Fatalf("%s %s: %s, not %s\n%s", args[1], args[2], answer.Status, args[3], text)
	}
}

// poll asks a job until its answer holds something: poll LOG PATH REGEXP.
func poll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: poll LOG PATH REGEXP")
	}
	re, err := regexp.Compile("(?s)" + args[2])
	ts.Check(err)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if request(ts, false, []string{args[0], "GET", args[1], "200"}); re.MatchString(ts.ReadFile("answer")) {
			return
		}
	}
	ts.Fatalf("%s has not %s after %s, but:\n%s", args[1], args[2], patience, ts.ReadFile("answer"))
}

// receiver answers what a job posts, until the script ends: receiver VARIABLE FILE KEY. Its URL stands in the variable; each
// request that is signed with the key and authorized by "Bearer ok" is a line of the file; a body that holds "poison" is refused
// for good.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: receiver VARIABLE FILE KEY")
	}
	file, key := ts.MkAbs(args[1]), []byte(args[2])
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		signed := webhooksink.Sign(key, r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
		switch {
		case err != nil, r.Header.Get("Webhook-Signature") != signed, r.Header.Get("Authorization") != "Bearer ok", r.Header.Get("X-Team") != "fraud":
			w.WriteHeader(http.StatusServiceUnavailable) // a configuration that is not handed on makes the script time out
		case bytes.Contains(body, []byte("poison")):
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.Write(append(body, '\n'))
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}
