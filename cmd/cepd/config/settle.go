package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/sinks"
)

// settle finishes a configuration that was read: it reports what is missing, and what does not fit together, and fills in
// what depends on other settings.
func (r *reader) settle() {
	if len(r.file.Documents) > 0 {
		r.required("", "the configuration", r.at(r.file.Documents[0]), r.config.settings())
	}
	for _, s := range r.config.Streams {
		r.stream(s)
	}
	for _, s := range r.config.Sinks {
		r.sink(s)
	}
	r.inputs()
	r.outputs()
	r.circles()
	r.listener()
}

// required reports keys that are missing, and things without a kind.
func (r *reader) required(path, what string, p place, settings section) {
	for i := range settings {
		s := &settings[i]
		at := path
		if s.name != "" {
			at = join(path, s.name)
		}
		inner, written := r.config.places[at]
		if s.required && !written && !r.wrong[at] {
			r.report(p, codeMissing, "", "%s needs the key %q", what, s.name)
			continue
		}
		if !written {
			inner = p
		}
		switch v := s.value.(type) {
		case section:
			r.required(at, fmt.Sprintf("%q", s.name), inner, v)
		case *choice:
			chosen := false
			for _, o := range v.options {
				if m := o.made(); m != nil {
					chosen = true
					r.required(join(at, o.name), fmt.Sprintf("%q", o.name), r.config.places[join(at, o.name)], m)
				}
			}
			if !chosen && !r.wrong[at] && !r.kindWrong(at, v) {
				r.report(inner, codeKind, "write one of the keys "+orList(v.names()), "the %s has no kind", v.what)
			}
		case *named:
			for _, n := range v.all() {
				r.required(join(at, n.name), fmt.Sprintf("the %s %q", v.what, n.name), r.config.places[join(at, n.name)], n.settings)
			}
		}
	}
}

// kindWrong reports whether a kind was named that could not be read, so that it is not missing.
func (r *reader) kindWrong(path string, c *choice) bool {
	return slices.ContainsFunc(c.names(), func(name string) bool { return r.wrong[join(path, name)] })
}

// orList says a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// placeOf is where a setting was written, or what encloses it.
func (r *reader) placeOf(paths ...string) place {
	for _, path := range paths {
		if p, ok := r.config.places[path]; ok {
			return p
		}
	}
	return place{pos: patterns.Pos{File: r.file.Name, Line: 1, Column: 1}, length: 1, excerpt: r.file.Line(1)}
}

func (r *reader) said(path string) bool {
	_, ok := r.config.places[path]
	return ok
}

func (r *reader) stream(s *Stream) {
	path := join("streams", s.Name)
	if s.Kafka != nil {
		r.kafkaSource(join(path, "source.kafka"), s.Kafka)
		r.timeWords(path, s)
	}
	if s.Start == AtTime && s.Kafka == nil {
		r.report(r.placeOf(join(path, "start")), codeContradicts, "write earliest or latest", "only Kafka can say where a time begins")
	}
	if !r.wrong[join(path, "time")] && !s.Arrival && !s.AppendTime {
		fields := s.Time
		if s.RecordTime {
			fields = []string{recordTime}
		}
		spec, err := codec.ParseTime(fields...)
		if err != nil {
			r.report(r.placeOf(join(path, "time")), codeTime, "", "%v", err)
		}
		s.TimeSpec = spec
	}
	if s.Arrival && s.File != nil {
		r.report(r.placeOf(join(path, "time")), codeContradicts, "name the field that holds the time", "nobody noted when the lines of a file came in, so they have no arrival")
	}
	if s.Arrival && s.Kafka != nil {
		r.report(r.placeOf(join(path, "time")), codeContradicts, "write append, or name the field that holds the time", "what is read again would arrive at another time")
	}
	if s.Arrival || s.AppendTime {
		if !r.said(join(path, "lateness")) {
			s.Lateness = 0 // what came in later has a later time
		}
	}
	r.reference(join(path, "late"), s.Late)
}

// recordTime is where events of Kafka have the time of their record.
const recordTime = "_kafka.timestamp,unix_ms"

// timeWords finds the words for the time of a record. They are no words where there are no records of Kafka: a field of a
// file may have such a name.
func (r *reader) timeWords(path string, s *Stream) {
	for _, name := range s.Time {
		if name != "record" && name != "append" {
			continue
		}
		if len(s.Time) > 1 {
			r.report(r.placeOf(join(path, "time")), codeTime, "write \""+recordTime+"\" for the record's time as one of several", "the word %s stands alone: no field counts beside it", name)
			return
		}
		s.Time, s.RecordTime, s.AppendTime = nil, name == "record", name == "append"
	}
}

// reference reports a sink that is not there.
func (r *reader) reference(path, name string) {
	if name == "" && !r.said(path) || r.wrong[path] || r.wrong["sinks"] {
		return
	}
	var names []string
	for _, s := range r.config.Sinks {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, name) && !r.wrong[join("sinks", name)] {
		hint := nearest(name, names)
		if hint == "" && len(names) > 0 {
			hint = "the sinks are " + orList(names)
		}
		r.report(r.placeOf(path), codeNoSink, hint, "there is no sink %q", name)
	}
}

// sink fills in what depends on the kind of the sink.
func (r *reader) sink(s *Sink) {
	path := join("sinks", s.Name)
	can := guarantees(s)
	if !s.guaranteed {
		s.Guarantee = can[0]
	} else if !slices.Contains(can, s.Guarantee) {
		words := make([]string, len(can))
		for i, g := range can {
			words[i] = g.String()
		}
		why := "its position is kept beside the messages, so that nothing has to come twice or be lost"
		switch {
		case s.Kafka != nil:
			why = "a request whose answer is lost is sent again"
		case can[0] != sinks.ExactlyOnce:
			why = "it cannot tell how far it is, so what was under way in a crash is sent again or lost"
		}
		r.report(r.placeOf(join(path, "guarantee")), codeContradicts, "write "+orList(words), "%s cannot be had %s: %s", destination(s), s.Guarantee, why)
	}
	if !s.full {
		s.OnFull = Pause
		if s.Webhook != nil && r.config.DeadLetters != "" && r.config.DeadLetters != s.Name {
			s.OnFull = DeadLetter
		}
	} else if s.OnFull == DeadLetter {
		switch at := r.placeOf(join(path, "on_full")); r.config.DeadLetters {
		case "":
			r.report(at, codeContradicts, "name their sink: dead_letters: NAME", "there are no dead letters")
		case s.Name:
			r.report(at, codeContradicts, "write on_full: pause", "the sink is that of the dead letters itself")
		}
	}
	if s.Redis != nil {
		r.redis(join(path, "redis"), s.Redis)
	}
	if s.Kafka != nil {
		r.kafkaSink(join(path, "kafka"), s)
	}
	if w := s.Webhook; w != nil && w.Retry > 0 && r.config.DeadLetters == "" && !r.said(join(path, "webhook.retry")) {
		w.Retry = 0 // there is nowhere else for it to go
	}
}

// guarantees are those that a destination can give, the best one first.
func guarantees(s *Sink) []sinks.Guarantee {
	switch {
	case s.Redis != nil:
		return []sinks.Guarantee{sinks.ExactlyOnce, sinks.AtLeastOnce, sinks.AtMostOnce}
	case s.Kafka != nil:
		return []sinks.Guarantee{sinks.ExactlyOnce, sinks.AtLeastOnce}
	case s.File != nil && s.File.Path != "-":
		return []sinks.Guarantee{sinks.ExactlyOnce}
	}
	return []sinks.Guarantee{sinks.AtLeastOnce, sinks.AtMostOnce}
}

// destination says what a sink writes to, for messages.
func destination(s *Sink) string {
	switch {
	case s.Webhook != nil:
		return "a webhook"
	case s.Kafka != nil:
		return "a topic"
	case s.File != nil && s.File.Path == "-":
		return "standard output"
	}
	return "a file"
}

// redis checks what does not fit together in a sink of Redis.
func (r *reader) redis(path string, s *RedisSink) {
	at := func(names ...string) place {
		var paths []string
		for _, n := range names {
			paths = append(paths, join(path, n))
		}
		return r.placeOf(append(paths, path)...)
	}
	switch {
	case s.Stream == "" && s.List == "" && !r.wrong[join(path, "stream")] && !r.wrong[join(path, "list")]:
		r.report(at(), codeMissing, "write stream: NAME", `"redis" needs the key "stream" or "list"`)
	case s.Stream != "" && s.List != "":
		r.report(at("list"), codeContradicts, "leave one of them out", "messages go to a stream or to a list")
	case s.List != "" && s.MaxAge > 0:
		r.report(at("max_age"), codeContradicts, "write stream in place of list, or max_length in place of max_age", "a list does not know the age of its elements")
	}
	if s.MaxAge > 0 && s.MaxLength > 0 {
		r.report(at("max_age"), codeContradicts, "leave one of them out", "a stream is bounded by its length or by age")
	}
	if s.Cluster && s.Sentinel != "" {
		r.report(at("sentinel"), codeContradicts, "leave one of them out", "a cluster has no sentinels")
	}
	if s.Cluster && s.Database != 0 {
		r.report(at("database"), codeContradicts, "", "a cluster has the database 0 alone")
	}
	if len(s.Addresses) > 1 && !s.Cluster && s.Sentinel == "" {
		r.report(at("address"), codeContradicts, "write cluster: true, or sentinel: NAME of the master that they watch", "one server has one address")
	}
	r.tls(path, &s.TLS)
}

// tls checks what does not fit together in how a connection is protected.
func (r *reader) tls(path string, t *TLS) {
	path = join(path, "tls")
	if !t.Enabled && (t.CA != "" || t.Certificate != "" || t.Key != "" || t.ServerName != "") {
		r.report(r.placeOf(join(path, "enabled"), path), codeContradicts, "write enabled: true", "the connection has no TLS that this could be about")
	}
	if (t.Certificate == "") != (t.Key == "") {
		r.report(r.placeOf(join(path, "cert_file"), join(path, "key_file")), codeContradicts, "", "a certificate and its key stand together")
	}
}

// inputs checks what streams share.
func (r *reader) inputs() {
	var stdin string
	for _, s := range r.config.Streams {
		path := join("streams", s.Name)
		switch {
		case s.Stdin != nil && stdin != "":
			r.report(r.placeOf(join(path, "source.stdin"), path), codeContradicts, "", "standard input can be read once, and the stream %q reads it", stdin)
		case s.Stdin != nil:
			stdin = s.Name
		case s.HTTP != nil && r.config.HTTP.Listen == "off":
			r.report(r.placeOf(join(path, "source.http"), path), codeContradicts, "write http: {listen: "+DefaultListen+"}", "nobody listens for what is posted: http.listen is off")
		case s.HTTP != nil && r.config.HTTP.Body > s.HTTP.LogMax/2:
			r.report(r.placeOf(join(path, "source.http.log_max"), "http.body"), codeContradicts, "", "the largest request, http.body %s, must fit twice into the log of %s",
				FormatSize(r.config.HTTP.Body), FormatSize(s.HTTP.LogMax))
		}
	}
}

// outputs checks what sinks share.
func (r *reader) outputs() {
	if r.said("dead_letters") {
		r.reference("dead_letters", r.config.DeadLetters)
	}
	taken := map[string]string{}
	for _, s := range r.config.Sinks {
		var where, key string
		switch {
		case s.File != nil && s.File.Path != "":
			where, key = "the file "+s.File.Path, "file "+filepath.Clean(s.File.Path)
		case s.Redis != nil && len(s.Redis.Addresses) > 0 && s.Redis.Stream+s.Redis.List != "":
			name := cmp.Or(s.Redis.Stream, s.Redis.List)
			where, key = "the key "+name, fmt.Sprintf("redis %s %d %s", s.Redis.Addresses[0], s.Redis.Database, name)
		default:
			continue
		}
		if first, ok := taken[key]; ok {
			r.report(r.placeOf(join("sinks", s.Name)), codeContradicts, "let one sink do the work of both: rules may name it in `to`", "the sink %q writes to %s already", first, where)
		}
		taken[key] = s.Name
	}
}
