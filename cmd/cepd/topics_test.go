package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/internal/kafkawire"
)

func TestParseTopics(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("p@ss:word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseTopics("kafka://ada@one:9092,two:9093/a,b.c?partitions=0-2,7&tls=true&server_name=broker&mechanism=plain&password_file=" + password)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one:9092", "two:9093"}, c.Kafka.Brokers); d != "" {
		t.Errorf("brokers (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"a", "b.c"}, c.Topics); d != "" {
		t.Errorf("topics (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int32{0, 1, 2, 7}, c.Numbers); d != "" {
		t.Errorf("partitions (-want +got):\n%s", d)
	}
	if c.Kafka.TLS == nil || c.Kafka.TLS.ServerName != "broker" {
		t.Errorf("TLS: %+v", c.Kafka.TLS)
	}
	if d := cmp.Diff(&kafkawire.SASL{Mechanism: kafkawire.Plain, User: "ada", Password: "p@ss:word"}, c.Kafka.SASL); d != "" {
		t.Errorf("SASL (-want +got):\n%s", d)
	}
	if c, err = parseTopics("kafka://[::1]:9092/a"); err != nil || c.Kafka.Brokers[0] != "[::1]:9092" || c.Kafka.TLS != nil || c.Kafka.SASL != nil || c.Numbers != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = parseTopics("kafka://one:9092/a?tls=false&ca=none.pem"); err != nil || c.Kafka.TLS != nil {
		t.Errorf("TLS that is switched off: %+v, %v", c.Kafka.TLS, err)
	}
}

func TestParseTopicsMistakes(t *testing.T) {
	for name, want := range map[string]string{
		"kafka://one:9092":                             "which topic?",
		"kafka://one:9092/":                            "which topic?",
		"kafka://ada:secret@one:9092/a":                "a password in a command line is seen by all",
		"kafka://ada@one:9092/a":                       "the user ada has no password",
		"kafka://one:9092/a?password_file=x":           "there is no user",
		"kafka://ada@one:9092/a?password_file=nowhere": "nowhere: no such file",
		"kafka://one:9092/a?partitions=3-1":            "partitions=3-1: write numbers and ranges",
		"kafka://one:9092/a?partitions=x":              "write numbers and ranges",
		"kafka://one:9092/a?tls=perhaps":               "tls=perhaps: true or false",
		"kafka://one:9092/a?ca=nowhere.pem":            "nowhere.pem: no such file",
		"kafka://one:9092/a?offset=3":                  `there is no option "offset"`,
		"kafka://one:9092/a?%zz":                       "options of",
	} {
		if _, err := parseTopics(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is shown: %v", name, err)
		}
	}
}
