package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
)

// KafkaCluster says which brokers, and how to get in.
type KafkaCluster struct {
	// Brokers are addresses to begin with; the others are found.
	Brokers []string
	TLS     TLS
	SASL    SASL
}

// SASL says who we are at brokers that ask. There is none without a Username.
type SASL struct {
	Mechanism Mechanism
	Username  string
	Password  Secret
}

// Mechanism is a way to show a password.
type Mechanism uint8

// The mechanisms. The password of Plain can be read by whoever reads the connection.
const (
	ScramSHA512 Mechanism = iota
	ScramSHA256
	Plain
)

var mechanismWords = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"}

// String returns Kafka's name of the mechanism.
func (m Mechanism) String() string { return mechanismWords[m] }

// KafkaSource reads topics.
type KafkaSource struct {
	KafkaCluster
	// Topics are names, Pattern is a regular expression that whole names match. One of them is given.
	Topics  []string
	Pattern string
	// Partitions are the numbers of those that are read, in ascending order; nil: all. The same of each topic.
	Partitions []int32
	// Group is the consumer group whose offsets are read on a first start and written after each epoch; "": none.
	Group string
}

// KafkaSink writes to a topic.
type KafkaSink struct {
	KafkaCluster
	Topic string
	// Letters is the topic of dead letters and late events; "": Topic.
	Letters string
	// Progress is the compacted topic in which the position stands.
	Progress string
	// Create makes topics that are not there, with so many Partitions and Replicas; 0: the cluster's default.
	Create               bool
	Partitions, Replicas int
	// TransactionTimeout is after what time brokers abort what was left open.
	TransactionTimeout cep.Duration
}

// partitionMax is the highest number of a partition that may be named: no topic has more than some thousand.
const partitionMax = 99_999

func (k *KafkaCluster) settings() section {
	return section{
		{name: "brokers", required: true, about: "HOST:PORT of some brokers; the others are found.", value: texts(&k.Brokers, "address, or list of them", isBroker)},
		{name: "tls", about: "How connections are protected.", value: k.TLS.settings()},
		{name: "sasl", about: "Who cepd is, for brokers that ask.", value: section{
			{name: "mechanism", about: "How the password is shown.", value: word(&k.SASL.Mechanism, mechanismWords...)},
			{name: "username", about: "The user; without one no password is shown.", value: text(&k.SASL.Username, "text", nil)},
			secretFile("password", &k.SASL.Password, "The password, read once at the start."),
			secretText("password", &k.SASL.Password),
		}},
	}
}

func (k *KafkaSource) settings() section {
	return slices.Concat(k.KafkaCluster.settings(), section{
		{name: "topics", about: "The topics, by name.", value: texts(&k.Topics, "list of topics", isTopic)},
		{name: "pattern", about: "Or a regular expression that whole names of topics match; topics that appear later are found.", value: text(&k.Pattern, "regular expression", isPattern)},
		{name: "partitions", about: "The partitions that are read of each topic, as `0-3`: those of one instance where several share a topic.", value: k.partitionsSetting()},
		{name: "assignment", about: "Who says which partitions are read: `partitions` does.", value: &scalar{
			what: "`explicit`", set: isAssignment, get: func() string { return "explicit" },
		}},
		{name: "group", about: "The consumer group that lag tools look at: after each epoch its offsets are written, on a first start they are where to begin.", value: text(&k.Group, "name", isKey)},
	})
}

func (k *KafkaSink) settings() section {
	return slices.Concat(k.KafkaCluster.settings(), section{
		{name: "topic", required: true, about: "The topic that messages are written to.", value: text(&k.Topic, "topic", isTopic)},
		{name: "letters_topic", about: "A topic of their own for dead letters and late events, in the same transactions; without one they go to the topic of the alerts.", value: text(&k.Letters, "topic", isTopic)},
		{name: "progress_topic", about: "The compacted topic in which the position stands; all jobs of a cluster may share it.", value: text(&k.Progress, "topic", isTopic)},
		{name: "create", about: "Make topics that are not there.", value: yes(&k.Create)},
		{name: "partitions", about: "How many partitions a topic that is made has; 0: as many as the brokers make by themselves.", value: number(&k.Partitions, bounds[int]{
			0, 10_000, "a transaction that writes to more takes seconds",
		})},
		{name: "replicas", about: "How many replicas it has; 0: as many as the brokers make by themselves.", value: number(&k.Replicas, bounds[int]{
			0, 100, "there is at most one on each broker",
		})},
		{name: "transaction_timeout", about: "After what time brokers abort what an instance that died had begun, where no other one takes over.", value: duration(&k.TransactionTimeout, bounds[cep.Duration]{
			time.Second, 15 * minute, "below, a slow replica is enough to miss it; above, brokers refuse it unless they are told otherwise",
		})},
	})
}

// partitionsSetting is the list of the partitions that are read.
func (k *KafkaSource) partitionsSetting() *list {
	all := false
	return &list{
		what:  "`all`, or list of numbers and ranges",
		reset: func() { k.Partitions, all = nil, false },
		add: func(in input) *mistake {
			if in.text == "all" || all {
				if len(k.Partitions) > 0 || all {
					return mistakef(codeWord, "", "the word all stands alone: there are no partitions beside it")
				}
				all = true
				return nil
			}
			for item := range strings.SplitSeq(in.text, ",") {
				first, last, m := partitionRange(strings.TrimSpace(item))
				if m != nil {
					return m
				}
				for n := first; n <= last; n++ {
					at, twice := slices.BinarySearch(k.Partitions, n)
					if twice {
						return mistakef(codeContradicts, "", "the partition %d is named twice", n)
					}
					k.Partitions = slices.Insert(k.Partitions, at, n)
				}
			}
			return nil
		},
		get: func() []string {
			if k.Partitions == nil {
				return []string{"all"}
			}
			return partitionRanges(k.Partitions)
		},
	}
}

// partitionRange reads 3 or 0-3.
func partitionRange(s string) (first, last int32, m *mistake) {
	from, to, ranged := strings.Cut(s, "-")
	if !ranged {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 31)
	b, more := strconv.ParseUint(to, 10, 31)
	switch {
	case err != nil || more != nil:
		return 0, 0, mistakef(codeNumber, "write all, or numbers and ranges as [0-3, 7]", "%q is no partition", s)
	case b > partitionMax:
		return 0, 0, mistakef(codeBounds, "", "the partition %d is out of bounds: 0 to %d, no topic has more than some thousand", b, partitionMax)
	case a > b:
		return 0, 0, mistakef(codeBounds, fmt.Sprintf("write %d-%d", b, a), "the range %q is empty", s)
	}
	return int32(a), int32(b), nil
}

// partitionRanges writes what partitionRange reads.
func partitionRanges(numbers []int32) []string {
	var all []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		s := strconv.Itoa(int(numbers[i]))
		if j > i {
			s += "-" + strconv.Itoa(int(numbers[j]))
		}
		all, i = append(all, s), j+1
	}
	return all
}

// isAssignment refuses what Kafka's own consumers do.
func isAssignment(in input) *mistake {
	switch in.text {
	case "explicit":
		return nil
	case "group":
		return mistakef(codeWord, "leave it out, and write partitions: [0-3] where several instances share a topic",
			"partitions cannot be assigned by the group: what they have opened is in the state of this process, and would stay behind when they move to another one")
	}
	return mistakef(codeWord, nearest(in.text, []string{"explicit"}), "%q is none of explicit", in.text)
}

var topicShape = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// isTopic holds a name against Kafka's rule.
func isTopic(s string) *mistake {
	if !topicShape.MatchString(s) || s == "." || s == ".." {
		return mistakef(codeName, "letters, digits, ., _ and -, at most 249", "%q cannot be the name of a topic", s)
	}
	return nil
}

func isPattern(s string) *mistake {
	if _, err := regexp.Compile(s); err != nil || s == "" {
		return mistakef(codeName, "", "%q is no regular expression: %s", s, patternTrouble(s, err))
	}
	return nil
}

func patternTrouble(s string, err error) string {
	if s == "" {
		return "it is empty"
	}
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}

// isBroker checks the address of a broker.
func isBroker(s string) *mistake {
	switch host, err := hostPort(s); {
	case err != nil:
		return mistakef(codeAddress, "write HOST:PORT", "%q is no address: %v", s, err)
	case host == "":
		return mistakef(codeAddress, "write HOST:PORT", "%q has no host", s)
	}
	return nil
}

// cluster checks what does not fit together in the way to brokers.
func (r *reader) cluster(path string, k *KafkaCluster) {
	r.tls(path, &k.TLS)
	user, password := k.SASL.Username != "", k.SASL.Password.value != nil
	at := func(names ...string) place {
		var paths []string
		for _, n := range names {
			paths = append(paths, join(path, n))
		}
		return r.placeOf(append(paths, path)...)
	}
	switch {
	case user && !password && !r.wrong[join(path, "sasl.password_file")] && !r.wrong[join(path, "sasl.password")]:
		r.report(at("sasl.username"), codeMissing, "write password_file: PATH", "the user %q has no password", k.SASL.Username)
	case !user && password:
		r.report(at("sasl.password_file", "sasl.password"), codeContradicts, "write username: NAME", "there is no user whom this could be about")
	case user && k.SASL.Mechanism == Plain && !k.TLS.Enabled && !onlyLoopback(k.Brokers):
		r.warn(at("sasl.mechanism"), codePlainText, "write tls: {enabled: true}, or a mechanism of SCRAM", "PLAIN without TLS shows the password to whoever reads the connection")
	}
}

// onlyLoopback reports whether all addresses are of the own machine.
func onlyLoopback(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool {
		host, err := hostPort(a)
		return err != nil || !isLoopback(host)
	})
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// kafkaSource checks what does not fit together in a source of topics.
func (r *reader) kafkaSource(path string, k *KafkaSource) {
	r.cluster(path, &k.KafkaCluster)
	switch {
	case len(k.Topics) == 0 && k.Pattern == "" && !r.wrong[join(path, "topics")] && !r.wrong[join(path, "pattern")]:
		r.report(r.placeOf(path), codeMissing, "write topics: [NAME]", `"kafka" needs the key "topics" or "pattern"`)
	case len(k.Topics) > 0 && k.Pattern != "":
		r.report(r.placeOf(join(path, "pattern")), codeContradicts, "leave one of them out", "topics are named, or found by a pattern")
	}
	for i, t := range k.Topics {
		if slices.Contains(k.Topics[:i], t) {
			r.report(r.placeOf(join(path, "topics")), codeContradicts, "", "the topic %q is named twice", t)
		}
	}
}

// kafkaSink checks what does not fit together in a sink of Kafka.
func (r *reader) kafkaSink(path string, s *Sink) {
	k := s.Kafka
	r.cluster(path, &k.KafkaCluster)
	for _, t := range []struct{ key, name string }{{"topic", k.Topic}, {"letters_topic", k.Letters}} {
		if t.name == k.Progress && t.name != "" {
			r.report(r.placeOf(join(path, t.key), join(path, "progress_topic")), codeContradicts, "choose another progress_topic",
				"the topic %q is that of the position too, which is compacted: it would forget messages", t.name)
		}
	}
	if !k.Create && (k.Partitions > 0 || k.Replicas > 0) {
		r.report(r.placeOf(join(path, "partitions"), join(path, "replicas")), codeContradicts, "write create: true, or leave it out", "this is about a topic that is made, and none is")
	}
}

// circles reports streams that would read what the job's own sinks write: each alert would be an event again.
func (r *reader) circles() {
	for _, s := range r.config.Streams {
		if s.Kafka == nil {
			continue
		}
		reads := s.Kafka.Reads()
		for _, out := range r.config.Sinks {
			if out.Kafka == nil || !slices.ContainsFunc(out.Kafka.Brokers, func(b string) bool { return slices.Contains(s.Kafka.Brokers, b) }) {
				continue
			}
			for _, t := range []string{out.Kafka.Topic, out.Kafka.Letters, out.Kafka.Progress} {
				path := join("streams", join(s.Name, "source.kafka"))
				if t != "" && reads(t) {
					r.report(r.placeOf(join(path, "topics"), join(path, "pattern"), path), codeContradicts, "rules read alerts of other rules by themselves: stream: alerts",
						"the stream reads the topic %q, which the sink %q writes", t, out.Name)
				}
			}
		}
	}
}

// Reads returns a function that reports whether the source reads a topic of a name.
func (k *KafkaSource) Reads() func(topic string) bool {
	if k.Pattern == "" {
		return func(topic string) bool { return slices.Contains(k.Topics, topic) }
	}
	whole, err := regexp.Compile(`^(?:` + k.Pattern + `)$`)
	if err != nil {
		return func(string) bool { return false } // it was refused
	}
	return whole.MatchString
}
