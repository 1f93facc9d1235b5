package config

import (
	"log/slog"
	"net/netip"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/sinks"
)

// Config is a configuration whose every value has been checked. Paths are such that the process can open them.
type Config struct {
	// Job is the name under which sinks know the job.
	Job string
	// Rules are rule files, and directories of them.
	Rules []string
	// Streams and Sinks stand in written order, which for streams decides between events of one time.
	Streams []*Stream
	Sinks   []*Sink
	// DeadLetters is the sink of refused events; "": they are counted only.
	DeadLetters string
	Checkpoint  Checkpoint
	// Shards is the number of goroutines that run rules; 0: one for each processor.
	Shards int
	HTTP   HTTP
	Reload Reload
	Limits Limits
	Log    Log

	places places
}

// Stream is a stream and where its events come from.
type Stream struct {
	Name string
	// One of these is not nil.
	File  *FileSource
	HTTP  *HTTPSource
	Stdin *StdinSource
	Kafka *KafkaSource
	// Time are the fields that hold the time of events, and TimeSpec what they mean. There are none with Arrival: the time of
	// an event is when it came in; with RecordTime: it is that of the record of Kafka, as TimeSpec says; with AppendTime: it is
	// that too, and must have been set by the broker, so that it is when the event came in there.
	Time                            []string
	TimeSpec                        codec.TimeSpec
	Arrival, RecordTime, AppendTime bool
	Lateness                        cep.Duration
	// Idle is how long a partition may be silent before its stream stops waiting for it; 0: for ever.
	Idle cep.Duration
	// Tiebreak is the path of the field that orders events of one time; "": their positions do.
	Tiebreak string
	// KeyLocal are fields whose values never cross partitions.
	KeyLocal []string
	// MaxAhead is how far above its arrival an event may lie; 0: as far as it likes.
	MaxAhead cep.Duration
	Buffer   Buffer
	// Late is the sink of late events; "": they are counted only.
	Late string
	// Start is where to begin in what is there before the first start; with AtTime at the first record from StartTime on.
	Start     Start
	StartTime cep.Time
}

// FileSource reads files.
type FileSource struct {
	Paths []string
	// Follow says that files grow and new ones appear.
	Follow bool
	Format Format
}

// HTTPSource takes events that are posted. What is posted is kept in a log of its own until no epoch needs it.
type HTTPSource struct {
	// ID is the member of an event that is the client's id for it: of two events with one id the second is dropped. "":
	// events have none.
	ID string
	// IDWindow is how long ids are remembered, by arrival.
	IDWindow cep.Duration
	// LogMax is how large the log may become before clients are told to come later.
	LogMax int64
}

// StdinSource reads standard input, into a log as that of an HTTPSource.
type StdinSource struct {
	// LogMax is how large the log may become before standard input is not read on.
	LogMax int64
}

// Buffer bounds how far partitions of a stream may be read ahead of the slowest one.
type Buffer struct {
	Ahead  int64
	Events int
}

// Sink is a destination.
type Sink struct {
	Name string
	// One of these is not nil.
	File    *FileSink
	Redis   *RedisSink
	Webhook *Webhook
	Kafka   *KafkaSink
	Format  sinks.Format
	// Source is the `source` of CloudEvents.
	Source string
	// Guarantee and OnFull are those of the kind of sink, unless the file says otherwise.
	Guarantee sinks.Guarantee
	OnFull    OnFull
	Outbox    Outbox
	// Alerts says whose alerts the sink takes.
	Alerts Alerts

	guaranteed, full bool // Guarantee and OnFull were said
}

// Outbox bounds what may wait for a sink.
type Outbox struct {
	Bytes    int64
	Messages int
}

// FileSink appends to a file.
type FileSink struct {
	// Path is the file; "-" is standard output.
	Path string
}

// RedisSink writes to Redis or Valkey.
type RedisSink struct {
	// Addresses are the server; with Cluster nodes of a cluster, with Sentinel the sentinels that watch the master of that
	// name.
	Addresses []string
	Cluster   bool
	Sentinel  string
	Database  int
	Username  string
	Password  Secret
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername string
	SentinelPassword Secret
	TLS              TLS
	// Stream or List is the key that messages are appended to.
	Stream, List string
	// Channel is where each message is published beside; "": nowhere.
	Channel string
	// MaxLength and MaxAge bound the stream; 0: by nothing.
	MaxLength int64
	MaxAge    cep.Duration
	// Replicas is how many must have a message before it may be forgotten, ReplicaTimeout how long to wait for them.
	Replicas       int
	ReplicaTimeout cep.Duration
}

// TLS says how a connection is protected.
type TLS struct {
	Enabled bool
	// CA, Certificate and Key are files in PEM form.
	CA, Certificate, Key string
	ServerName           string
}

// Webhook posts messages to a URL.
type Webhook struct {
	URL string
	// Secret signs requests, Authorization is the header of that name.
	Secret        Secret
	Authorization Secret
	Headers       [][2]string
	// Batch is the number of messages in a request.
	Batch   int
	Timeout cep.Duration
	// Retry is how long a message is tried before it becomes a dead letter; 0: for ever.
	Retry cep.Duration
	// Private admits addresses of the own machine and networks, Allow any others.
	Private bool
	Allow   []netip.Prefix
	CA      string
}

// Checkpoint says where state is kept.
type Checkpoint struct {
	Path     string
	Interval cep.Duration
	Keep     int
}

// Limits bound single events.
type Limits struct{ EventSize int64 }

// Log says what is logged, and how.
type Log struct {
	Level  Level
	Format LogFormat
}

// Level is how much is logged.
type Level uint8

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

var levelWords = []string{"debug", "info", "warn", "error"}

// Slog returns the level as package slog counts.
func (l Level) Slog() slog.Level { return slog.Level(int(l)-int(Info)) * 4 }

// LogFormat is how a line of the log looks.
type LogFormat uint8

// The formats of the log.
const (
	LogText LogFormat = iota
	LogJSON
)

var logWords = []string{"text", "json"}

// Format is how events are written.
type Format uint8

// The formats of events. FormatAuto goes by the name of the file.
const (
	FormatAuto Format = iota
	FormatJSON
	FormatCSV
	FormatTSV
)

var formatWords = []string{"auto", "json", "csv", "tsv"}

// String returns the word for the format.
func (f Format) String() string { return formatWords[f] }

// OnFull is what happens when a sink's outbox is full.
type OnFull uint8

// What a full outbox does.
const (
	Pause      OnFull = iota // sources wait
	DeadLetter               // what finds no room goes to the dead letters
)

var onFullWords = []string{"pause", "dead_letter"}

// Alerts says whose alerts a sink takes.
type Alerts uint8

// Whose alerts a sink takes.
const (
	AllAlerts   Alerts = iota // those of rules that name no sink, and of rules that name this one
	NamedAlerts               // those of rules that name this sink
)

var alertsWords = []string{"all", "named"}

// Start is where to begin on a first start.
type Start uint8

// Where to begin.
const (
	Earliest Start = iota
	Latest
	AtTime
)

var startWords = []string{"earliest", "latest"}

// Kind is the word for where the events come from.
func (s *Stream) Kind() string {
	switch {
	case s.File != nil:
		return "file"
	case s.HTTP != nil:
		return "http"
	case s.Kafka != nil:
		return "kafka"
	}
	return "stdin"
}

// Kind is the word for the destination.
func (s *Sink) Kind() string {
	switch {
	case s.File != nil:
		return "file"
	case s.Redis != nil:
		return "redis"
	case s.Kafka != nil:
		return "kafka"
	}
	return "webhook"
}
