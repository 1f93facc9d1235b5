package config

import (
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/sinks"
)

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

const (
	kibi int64 = 1 << 10
	mebi int64 = 1 << 20
	gibi int64 = 1 << 30
)

// settings are the keys of the whole file, but for its version.
func (c *Config) settings() section {
	return section{
		{name: "job", about: "The name of the job: destinations know it by that, so two jobs that write to one place need two names.", value: text(&c.Job, "name", isName)},
		{name: "rules", about: "Rule files, and directories of them.", value: paths(&c.Rules)},
		{name: "streams", required: true, about: "The streams, by the names that rules use. Their order decides between events of one time.", value: &named{
			what: "stream", check: isStream,
			add: func(name string) section {
				c.Streams = append(c.Streams, defaultStream(name))
				return c.Streams[len(c.Streams)-1].settings()
			},
			all: func() []namedSection {
				var l []namedSection
				for _, s := range c.Streams {
					l = append(l, namedSection{s.Name, s.settings()})
				}
				return l
			},
			sample: func() section { return defaultStream("").settings() },
		}},
		{name: "sinks", required: true, about: "The sinks, by names of your choice, which rules use in `to`.", value: &named{
			what: "sink", check: isName,
			add: func(name string) section {
				c.Sinks = append(c.Sinks, defaultSink(name))
				return c.Sinks[len(c.Sinks)-1].settings()
			},
			all: func() []namedSection {
				var l []namedSection
				for _, s := range c.Sinks {
					l = append(l, namedSection{s.Name, s.settings()})
				}
				return l
			},
			sample: func() section { return defaultSink("").settings() },
		}},
		{name: "dead_letters", about: "The sink of events that are none, or that lie in the future; without one they are only counted.", value: text(&c.DeadLetters, "name of a sink", nil)},
		{name: "checkpoint", about: "The state that survives the process.", value: section{
			{name: "path", about: "The directory of the state. One process owns it.", value: path(&c.Checkpoint.Path, "path")},
			{name: "interval", about: "The longest time between two epochs. While alerts wait, epochs come as often as the disk allows, so this is no delay of alerts.", value: duration(&c.Checkpoint.Interval, bounds[cep.Duration]{
				10 * time.Millisecond, 10 * minute, "below, the disk does nothing else; above, a restart reads too much again",
			})},
			{name: "keep", about: "How many bases are kept, each with the epochs that follow it.", value: number(&c.Checkpoint.Keep, bounds[int]{
				1, 100, "each is as large as all state together",
			})},
		}},
		{name: "shards", about: "The number of goroutines that run rules; 0: one for each processor. It changes nothing in what comes out.", value: number(&c.Shards, bounds[int]{
			0, 256, "keys are spread over 256 slots, and a shard owns whole slots",
		})},
		{name: "http", about: "The listener for pushed events, the API, health and metrics.", value: c.HTTP.settings()},
		{name: "reload", about: "How changes of the rules are noticed.", value: c.Reload.settings()},
		{name: "limits", about: "Bounds of single events.", value: section{
			{name: "event_size", about: "The largest event; a larger one is refused and counted.", value: size(&c.Limits.EventSize, bounds[int64]{
				kibi, source.MaxRecord, "so much of a line is read at most, whatever its end",
			})},
		}},
		{name: "log", about: "The log, on standard error.", value: section{
			{name: "level", about: "The least of what is logged.", value: word(&c.Log.Level, levelWords...)},
			{name: "format", about: "`text` for people, `json` for programs.", value: word(&c.Log.Format, logWords...)},
		}},
	}
}

func (s *Stream) settings() section {
	return section{
		{name: "source", required: true, about: "Where the events come from.", value: &choice{"source", []option{
			{
				"file", "Files, which may grow.",
				func() section { s.File = defaultFile(); return s.File.settings() },
				func() section { return made(s.File, s.File.settings) },
			},
			{
				"http", "Events that clients post to `/v1/streams/NAME/events`.",
				func() section { s.HTTP = defaultHTTP(); return s.HTTP.settings() },
				func() section { return made(s.HTTP, s.HTTP.settings) },
			},
			{
				"stdin", "Standard input.",
				func() section { s.Stdin = defaultStdin(); return s.Stdin.settings() },
				func() section { return made(s.Stdin, s.Stdin.settings) },
			},
			{
				"kafka", "Topics of Kafka.",
				func() section { s.Kafka = defaultKafkaSource(); return s.Kafka.settings() },
				func() section { return made(s.Kafka, s.Kafka.settings) },
			},
		}}},
		{name: "time", about: "The fields that hold the time of an event, `FIELD[,LAYOUT[,ZONE]]`: the first that an event has counts. `arrival`: an event's time is when it came in; of Kafka also `record`: the record's time, and `append`: the same where brokers set it.", value: s.timeSetting()},
		{name: "lateness", about: "How far behind the highest time of its partition an event may come.", value: duration(&s.Lateness, bounds[cep.Duration]{
			0, 7 * day, "all events of this time wait in memory",
		})},
		{name: "idle", about: "How long a partition may be silent before its stream no longer waits for it.", value: orWord(duration(&s.Idle, bounds[cep.Duration]{
			second, day, "silence is looked for once a second, and after a day nobody waits any more",
		}), "never", func() bool { return s.Idle == 0 }, func(is bool) {
			if is {
				s.Idle = 0
			}
		})},
		{name: "tiebreak", about: "The field that orders events of one time; without one their positions do.", value: text(&s.Tiebreak, "field", isField)},
		{name: "key_local", about: "Fields whose values never cross partitions: rules whose key has one of them need not wait for the slowest partition. It cannot change under a state.", value: texts(&s.KeyLocal, "list of fields", isField)},
		{name: "max_ahead", about: "How far above its arrival an event may lie before it is refused as from the future; 0s: as far as it likes.", value: duration(&s.MaxAhead, bounds[cep.Duration]{
			0, 3650 * day, "a clock that is ten years ahead is broken",
		})},
		{name: "buffer", about: "How far a partition may be read ahead of the slowest one, over all partitions of the stream.", value: section{
			{name: "ahead", about: "In bytes.", value: size(&s.Buffer.Ahead, bounds[int64]{
				2 * source.MaxRecord, 64 * gibi, "two of the largest events must fit, and all of it is memory",
			})},
			{name: "events", about: "In events.", value: number(&s.Buffer.Events, bounds[int]{
				1_000, 1_000_000_000, "less is handed over at once, and an event takes some 100 bytes at least",
			})},
		}},
		{name: "late", about: "The sink of events that came too late; without one they are only counted.", value: text(&s.Late, "name of a sink", nil)},
		{name: "start", about: "Where to begin in what is there at the first start; later starts go on where the last epoch ended.", value: s.startSetting()},
	}
}

// made returns the settings of a kind that was chosen, nil for one that was not.
func made[T any](p *T, settings func() section) section {
	if p == nil {
		return nil
	}
	return settings()
}

func (s *Stream) timeSetting() *list {
	return &list{
		what:  "list of fields, or `arrival`, `record`, `append`",
		reset: func() { s.Time, s.Arrival, s.RecordTime, s.AppendTime = nil, false, false, false },
		add: func(in input) *mistake {
			if s.Arrival || in.text == "arrival" && len(s.Time) > 0 {
				return mistakef(codeTime, "", "the word arrival stands alone: no field counts beside it")
			}
			if in.text == "arrival" {
				s.Arrival = true
				return nil
			}
			if _, err := codec.ParseTime(in.text); err != nil {
				return mistakef(codeTime, "", "%v", err)
			}
			s.Time = append(s.Time, in.text)
			return nil
		},
		get: func() []string {
			switch {
			case s.Arrival:
				return []string{"arrival"}
			case s.AppendTime:
				return []string{"append"}
			case s.RecordTime:
				return []string{"record"}
			}
			return s.Time
		},
	}
}

// startSetting is where to begin: a word, or a time.
func (s *Stream) startSetting() *scalar {
	start := word(&s.Start, startWords...)
	return &scalar{
		what: start.what + ", or a time as `2026-11-29T08:00:00Z`",
		set: func(in input) *mistake {
			t, err := time.Parse(time.RFC3339Nano, in.text)
			if err != nil {
				m := start.set(in)
				if m != nil {
					m.message += " or a time as 2026-11-29T08:00:00Z"
				}
				return m
			}
			at, ok := cep.TimeOf(t)
			if !ok {
				return mistakef(codeBounds, "", "%s is out of bounds: times are in the years 1678 to 2261", in.text)
			}
			s.Start, s.StartTime = AtTime, at
			return nil
		},
		get: func() string {
			if s.Start == AtTime {
				return s.StartTime.String()
			}
			return start.get()
		},
	}
}

func (f *FileSource) settings() section {
	return section{
		{name: "paths", required: true, about: "Files, directories and patterns.", value: paths(&f.Paths)},
		{name: "follow", about: "Wait for what is appended, and for new files.", value: yes(&f.Follow)},
		{name: "format", about: "How events are written; `auto` goes by the name of the file.", value: word(&f.Format, formatWords...)},
	}
}

// A log is disk, not memory.
var logBounds = bounds[int64]{64 * mebi, 1 << 50, "some segments of the log must fit, and the rest is disk"}

func (h *HTTPSource) settings() section {
	return section{
		{name: "id", about: "The member of an event that is the client's id for it, as `event_id` or `meta.id`: of two events with one id the second is dropped, so that a client may post again what it got no answer for.", value: text(&h.ID, "field", isField)},
		{name: "id_window", about: "How long ids are remembered.", value: duration(&h.IDWindow, bounds[cep.Duration]{
			second, day, "each id takes memory for so long",
		})},
		{name: "log_max", about: "How large the log of what was posted may become, before clients are told to come later. It shrinks as epochs no longer need it.", value: size(&h.LogMax, logBounds)},
	}
}

func (s *StdinSource) settings() section {
	return section{
		{name: "log_max", about: "How large the log of what was read may become, before standard input is not read on. It shrinks as epochs no longer need it.", value: size(&s.LogMax, logBounds)},
	}
}

func (s *Sink) settings() section {
	guarantee, full := word(&s.Guarantee, sinks.ExactlyOnce.String(), sinks.AtLeastOnce.String(), sinks.AtMostOnce.String()), word(&s.OnFull, onFullWords...)
	return section{
		{value: &choice{"sink", []option{
			{
				"file", "A file, or standard output.",
				func() section { s.File = &FileSink{}; return s.File.settings() },
				func() section { return made(s.File, s.File.settings) },
			},
			{
				"redis", "Redis or Valkey.",
				func() section { s.Redis = defaultRedis(); return s.Redis.settings() },
				func() section { return made(s.Redis, s.Redis.settings) },
			},
			{
				"webhook", "A URL that is posted to.",
				func() section { s.Webhook = defaultWebhook(); return s.Webhook.settings() },
				func() section { return made(s.Webhook, s.Webhook.settings) },
			},
			{
				"kafka", "A topic of Kafka.",
				func() section { s.Kafka = defaultKafkaSink(); return s.Kafka.settings() },
				func() section { return made(s.Kafka, s.Kafka.settings) },
			},
		}}},
		{name: "format", about: "`raw`: the alert as it is; `cloudevents`: in an envelope of CloudEvents 1.0.", value: word(&s.Format, sinks.Raw.String(), sinks.CloudEvents.String())},
		{name: "source", about: "The `source` of CloudEvents; without one it is /cepd/JOB.", value: text(&s.Source, "URI", isSource)},
		{name: "guarantee", about: "How often a message arrives where something fails. Without one it is the best that the destination can give: `exactly_once` for a file, Kafka and Redis, `at_least_once` for standard output and a webhook.", value: noting(guarantee, &s.guaranteed)},
		{name: "on_full", about: "What happens when the outbox is full: sources wait, or what finds no room goes to the dead letters. Without one it is `dead_letter` for a webhook where `dead_letters` names another sink.", value: noting(full, &s.full)},
		{name: "outbox", about: "What may wait for the destination.", value: section{
			{name: "bytes", about: "In bytes.", value: size(&s.Outbox.Bytes, bounds[int64]{
				mebi, 1 << 50, "the largest alert must fit, and the rest is disk",
			})},
			{name: "messages", about: "In messages.", value: number(&s.Outbox.Messages, bounds[int]{
				1, 1_000_000_000, "each takes some bytes of disk whatever its size",
			})},
		}},
		{name: "alerts", about: "`all`: the alerts of rules that name no sink, and of those that name this one; `named`: only the latter.", value: word(&s.Alerts, alertsWords...)},
	}
}

// noting is s, and remembers that it was set.
func noting(s *scalar, said *bool) *scalar {
	set := s.set
	s.set = func(in input) *mistake {
		*said = true
		return set(in)
	}
	return s
}

func (f *FileSink) settings() section {
	return section{{name: "path", required: true, about: "The file, which is appended to; `-` is standard output.", value: path(&f.Path, "path, or `-`", "-")}}
}

func (r *RedisSink) settings() section {
	return section{
		{name: "address", required: true, about: "HOST:PORT, or the path of a unix socket; of a cluster some of its nodes, with `sentinel` the sentinels.", value: texts(&r.Addresses, "address, or list of them", isAddress)},
		{name: "cluster", about: "The server is a Redis Cluster.", value: yes(&r.Cluster)},
		{name: "sentinel", about: "The name of the master that the sentinels watch.", value: text(&r.Sentinel, "name", isKey)},
		{name: "database", about: "The number of the database.", value: number(&r.Database, bounds[int]{
			0, 1 << 20, "servers have 16 unless they are told otherwise",
		})},
		{name: "username", about: "The user to log in as; without one the server's default user.", value: text(&r.Username, "text", nil)},
		secretFile("password", &r.Password, "The password, read again at each connection."),
		secretText("password", &r.Password),
		{name: "sentinel_username", about: "The user for the sentinels themselves.", value: text(&r.SentinelUsername, "text", nil)},
		secretFile("sentinel_password", &r.SentinelPassword, "The password for the sentinels themselves, read once at the start."),
		secretText("sentinel_password", &r.SentinelPassword),
		{name: "tls", about: "How the connection is protected.", value: r.TLS.settings()},
		{name: "stream", about: "The stream that messages are appended to.", value: text(&r.Stream, "key", isKey)},
		{name: "list", about: "Or the list. A stream is the better one: its ids say what arrived.", value: text(&r.List, "key", isKey)},
		{name: "channel", about: "A channel to which each message is published beside, at most once.", value: text(&r.Channel, "name", isKey)},
		{name: "max_length", about: "Keep about so many of the newest messages; 0: all.", value: number(&r.MaxLength, bounds[int64]{
			0, 1 << 40, "more is no bound",
		})},
		{name: "max_age", about: "Drop messages of the stream that are older; 0s: none.", value: duration(&r.MaxAge, bounds[cep.Duration]{
			0, 3650 * day, "more is no bound",
		})},
		{name: "replicas", about: "How many replicas must have a message before it is forgotten here.", value: number(&r.Replicas, bounds[int]{
			0, 100, "no server has more",
		})},
		{name: "replica_timeout", about: "How long each answer waits for the replicas.", value: duration(&r.ReplicaTimeout, bounds[cep.Duration]{
			time.Millisecond, 30 * time.Second, "the sink does nothing else meanwhile",
		})},
	}
}

func (t *TLS) settings() section {
	return section{
		{name: "enabled", about: "Speak TLS.", value: yes(&t.Enabled)},
		{name: "ca_file", about: "The authorities that are trusted; without a file those of the machine.", value: path(&t.CA, "path of a PEM file")},
		{name: "cert_file", about: "The certificate that cepd shows.", value: path(&t.Certificate, "path of a PEM file")},
		{name: "key_file", about: "Its key.", value: path(&t.Key, "path of a PEM file")},
		{name: "server_name", about: "The name that the server's certificate must have, where it is not that of the address.", value: text(&t.ServerName, "host name", nil)},
	}
}

func (w *Webhook) settings() section {
	return section{
		{name: "url", required: true, about: "Where messages are posted.", value: text(&w.URL, "URL", isURL)},
		secretFile("secret", &w.Secret, "The key that signs messages (HMAC-SHA-256)."),
		secretText("secret", &w.Secret),
		secretFile("authorization", &w.Authorization, "The header Authorization, all of it, as `Bearer ...`."),
		secretText("authorization", &w.Authorization),
		{name: "timeout", about: "How long to wait for an answer.", value: duration(&w.Timeout, bounds[cep.Duration]{
			100 * time.Millisecond, 10 * minute, "messages behind wait too",
		})},
		{name: "retry", about: "How long a message is tried before it becomes a dead letter; 0s: for ever, as it is by default where there are no `dead_letters`.", value: duration(&w.Retry, bounds[cep.Duration]{
			0, 365 * day, "messages behind wait too",
		})},
		{name: "headers", about: "Headers of each request. No secrets.", value: &pairs{
			what:  "map of names and texts",
			reset: func() { w.Headers = nil },
			add: func(name, text string) *mistake {
				w.Headers = append(w.Headers, [2]string{name, text})
				return isHeader(name, text)
			},
			get: func() [][2]string { return w.Headers },
		}},
		{name: "batch", about: "The number of messages in a request: 1 is a message as it is, more a JSON array.", value: number(&w.Batch, bounds[int]{
			1, sinks.BatchMax, "so many are read from the outbox at a time",
		})},
		{name: "private", about: "Admit addresses of the own machine and networks, which are refused otherwise.", value: yes(&w.Private)},
		{name: "allow", about: "Networks that are admitted whatever they are, as `169.254.1.0/24`.", value: networks(&w.Allow)},
		{name: "ca_file", about: "The authorities that are trusted; without a file those of the machine.", value: path(&w.CA, "path of a PEM file")},
	}
}

// secretFile is the setting that names the file of a secret.
func secretFile(name string, s *Secret, about string) setting {
	return setting{
		name: name + "_file", about: about + " Or set `CEPD_..._" + strings.ToUpper(name) + "` in the environment.",
		value: &scalar{
			what: "path", path: true,
			set: func(in input) *mistake {
				s.File, s.value = resolve(in), nil
				if err := s.read(); err != nil {
					return mistakef(codeFile, "", "%s: %v", s.File, plain(err))
				}
				return nil
			},
			get: func() string { return s.File },
		},
	}
}

// secretText is the setting of a secret itself, for the environment alone.
func secretText(name string, s *Secret) setting {
	return setting{name: name, value: &scalar{
		secret: true,
		set: func(in input) *mistake {
			if in.text == "" {
				return mistakef(codeShape, "", "the secret is empty")
			}
			s.File, s.value = "", []byte(in.text)
			return nil
		},
		get: func() string {
			if s.File == "" && s.value != nil {
				return hidden
			}
			return ""
		},
	}}
}
