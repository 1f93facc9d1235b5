package config

import (
	"path/filepath"
	"time"

	"github.com/cepd/cepd/cep/source"
)

// TimeFields are where events keep their time unless a stream says otherwise.
var TimeFields = []string{"@timestamp", "timestamp", "time", "ts"}

// DefaultListen is where a job listens whose configuration does not say otherwise, and where commands ask for one.
const DefaultListen = "127.0.0.1:8642"

// defaults returns the configuration of a file that says nothing, in a directory. What depends on the kind of a source or sink is in
// settle.
func defaults(dir string) *Config {
	return &Config{
		Job:        "cepd",
		Rules:      []string{filepath.Join(dir, "rules")},
		Checkpoint: Checkpoint{Path: filepath.Join(dir, "state"), Interval: time.Second, Keep: 3},
		HTTP:       HTTP{Listen: DefaultListen, Body: 16 << 20, Rate: 50, Admin: "off"},
		Reload:     Reload{Watch: true, Debounce: 500 * time.Millisecond, Rehash: 30 * time.Second},
		Limits:     Limits{EventSize: source.MaxRecord},
		Log:        Log{Level: Info, Format: LogText},
	}
}

func defaultStream(name string) *Stream {
	return &Stream{
		Name: name, Time: TimeFields, Lateness: 5 * time.Second, Idle: 30 * time.Second, MaxAhead: time.Hour,
		Buffer: Buffer{Ahead: 64 << 20, Events: 1_000_000},
	}
}

func defaultFile() *FileSource { return &FileSource{Follow: true} }

func defaultHTTP() *HTTPSource { return &HTTPSource{IDWindow: 10 * time.Minute, LogMax: 4 << 30} }

func defaultStdin() *StdinSource { return &StdinSource{LogMax: 4 << 30} }

func defaultSink(name string) *Sink {
	return &Sink{Name: name, Outbox: Outbox{Bytes: 1 << 30, Messages: 1_000_000}}
}

func defaultRedis() *RedisSink {
	return &RedisSink{ReplicaTimeout: time.Second}
}

func defaultWebhook() *Webhook {
	return &Webhook{Batch: 1, Timeout: 10 * time.Second, Retry: 24 * time.Hour}
}

func defaultKafkaSource() *KafkaSource { return &KafkaSource{} }

func defaultKafkaSink() *KafkaSink {
	return &KafkaSink{Progress: "cepd-progress", TransactionTimeout: time.Minute}
}
