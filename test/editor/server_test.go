package editor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// answerWithin bounds how long the language server may think: on a loaded machine node alone takes seconds to start.
const answerWithin = 2 * time.Minute

// server is a yaml-language-server that runs, and the connection to it: JSON-RPC behind headers, as LSP has it.
type server struct {
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Reader
	number int
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// start starts the server. Where it is not installed the test is skipped.
func start(t *testing.T) *server {
	t.Helper()
	program := os.Getenv("CEPD_YAML_LANGUAGE_SERVER")
	if program == "" {
		program = "../../bin/node/node_modules/yaml-language-server/bin/yaml-language-server"
	}
	program, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Skipf("no yaml-language-server: make deps installs it where npm is there, or name it in CEPD_YAML_LANGUAGE_SERVER (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), node, program, "--stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(answerWithin, func() { _ = cmd.Process.Kill() }) // what is read then ends, and the test fails
	t.Cleanup(func() {
		stop.Stop()
		_ = in.Close()
		_ = cmd.Process.Kill() // it keeps nothing
		_ = cmd.Wait()
	})
	s := &server{t: t, in: in, out: bufio.NewReader(out)}
	s.ask("initialize", map[string]any{
		"processId": nil, "rootUri": nil,
		"capabilities": map[string]any{
			"textDocument": map[string]any{"completion": map[string]any{}, "hover": map[string]any{}},
			"workspace":    map[string]any{"configuration": true},
		},
	})
	s.tell("initialized", map[string]any{})
	return s
}

func (s *server) send(m message) {
	s.t.Helper()
	m.JSONRPC = "2.0"
	text, err := json.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.in, "Content-Length: %d\r\n\r\n%s", len(text), text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) read() message {
	s.t.Helper()
	head, err := textproto.NewReader(s.out).ReadMIMEHeader()
	if err != nil {
		s.t.Fatalf("the language server says nothing more: %v", err)
	}
	n, err := strconv.Atoi(head.Get("Content-Length"))
	if err != nil {
		s.t.Fatal(err)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(s.out, text); err != nil {
		s.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		s.t.Fatal(err)
	}
	if m.Method != "" && m.ID != nil {
		s.answer(m)
	}
	return m
}

// answer answers what the server asks: its settings, of which it has none but those by default.
func (s *server) answer(m message) {
	s.t.Helper()
	result := json.RawMessage("null")
	if m.Method == "workspace/configuration" {
		var params struct{ Items []any }
		if err := json.Unmarshal(m.Params, &params); err != nil {
			s.t.Fatal(err)
		}
		settings := make([]any, len(params.Items))
		for i := range settings {
			settings[i] = map[string]any{}
		}
		result = encode(s.t, settings)
	}
	s.send(message{ID: m.ID, Result: result})
}

func (s *server) tell(method string, params any) {
	s.t.Helper()
	s.send(message{Method: method, Params: encode(s.t, params)})
}

// ask sends a request and returns its result.
func (s *server) ask(method string, params any) json.RawMessage {
	s.t.Helper()
	s.number++
	id := encode(s.t, s.number)
	s.send(message{ID: id, Method: method, Params: encode(s.t, params)})
	for {
		m := s.read()
		if m.Method != "" || string(m.ID) != string(id) {
			continue
		}
		if m.Error != nil {
			s.t.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
