package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/internal/kafkawire"
)

// kafkaScheme begins the name of topics: kafka://[USER@]HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC][?OPTION=VALUE&...].
const kafkaScheme = "kafka://"

// topicsHelp says what such a name holds.
const topicsHelp = `kafka://[USER@]HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC][?OPTION=VALUE&OPTION=VALUE] names topics of Kafka. Options are
partitions (0-3,7), tls (true), ca, cert, key (files in PEM form), server_name, mechanism (SCRAM-SHA-512, SCRAM-SHA-256,
PLAIN) and password_file.`

// topicOptions are the options of such a name.
var topicOptions = []string{"partitions", "tls", "ca", "cert", "key", "server_name", "mechanism", "password_file"}

// parseTopics reads the name of topics. A password has no place in it: the list of processes shows it.
func parseTopics(name string) (kafkasource.Config, error) {
	var c kafkasource.Config
	rest, query, _ := strings.Cut(strings.TrimPrefix(name, kafkaScheme), "?")
	address, topics, ok := strings.Cut(rest, "/")
	if !ok || topics == "" {
		return c, fmt.Errorf("which topic? Write %sHOST:PORT/TOPIC", kafkaScheme)
	}
	c.Topics = strings.Split(topics, ",")
	var k config.KafkaCluster
	user, hosts, named := strings.Cut(address, "@")
	if !named {
		user, hosts = "", address
	}
	if strings.Contains(user, ":") {
		return c, fmt.Errorf("a password in a command line is seen by all: write it to a file, and name that by password_file=FILE")
	}
	k.Brokers = strings.Split(hosts, ",")
	options, err := url.ParseQuery(query)
	if err != nil {
		return c, fmt.Errorf("options of %s: %w", name, err)
	}
	for option := range options {
		if !slices.Contains(topicOptions, option) {
			return c, fmt.Errorf("there is no option %q%s", option, didYouMean("%q", option, topicOptions))
		}
	}
	if c.Numbers, err = parseNumbers(options.Get("partitions")); err != nil {
		return c, err
	}
	k.TLS = config.TLS{
		CA: options.Get("ca"), Certificate: options.Get("cert"), Key: options.Get("key"), ServerName: options.Get("server_name"),
	}
	if k.TLS.Enabled = k.TLS != (config.TLS{}); options.Has("tls") {
		if k.TLS.Enabled, err = strconv.ParseBool(options.Get("tls")); err != nil {
			return c, fmt.Errorf("tls=%s: true or false", options.Get("tls"))
		}
	}
	if c.Kafka, err = clusterOf("cli", &k, slog.New(slog.DiscardHandler)); err != nil {
		return c, err
	}
	c.Kafka.SASL, err = topicPassword(user, options)
	return c, err
}

// topicPassword says who the options say we are; nil: nobody.
func topicPassword(user string, options url.Values) (*kafkawire.SASL, error) {
	if user == "" {
		if options.Has("mechanism") || options.Has("password_file") {
			return nil, fmt.Errorf("there is no user whose password this could be: write %sUSER@HOST:PORT/TOPIC", kafkaScheme)
		}
		return nil, nil
	}
	file := options.Get("password_file")
	if file == "" {
		return nil, fmt.Errorf("the user %s has no password: name its file by password_file=FILE", user)
	}
	password, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("password_file: %w", plainPath(err))
	}
	mechanism := config.ScramSHA512.String()
	if options.Has("mechanism") {
		mechanism = strings.ToUpper(options.Get("mechanism"))
	}
	return &kafkawire.SASL{
		Mechanism: kafkawire.Mechanism(mechanism), User: user, Password: strings.TrimRight(string(password), "\r\n"),
	}, nil
}

// parseNumbers reads numbers and ranges of partitions, as 0-3,7; nil: all.
func parseNumbers(text string) (numbers []int32, err error) {
	if text == "" || text == "all" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(item, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || first > last {
			return nil, fmt.Errorf("partitions=%s: write numbers and ranges, as 0-3,7", text)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, int32(n))
		}
	}
	return numbers, nil
}

// span is what is read of topics.
type span struct{ from, to kafkasource.Bound }

// parseSpan reads --from and --to.
func parseSpan(from, to string) (s span, err error) {
	if s.from, err = kafkasource.ParseBound(from); err != nil {
		return s, usagef("--from %w", err)
	}
	if s.to, err = kafkasource.ParseBound(to); err != nil {
		return s, usagef("--to %w", err)
	}
	return s, nil
}

// openTopics opens the partitions of topics. Closing the source is for the end, behind the readers.
func openTopics(ctx context.Context, from *kafkasource.Source, s span) ([]source.Reader, io.Closer, error) {
	readers, err := from.Open(ctx, s.from, s.to)
	if err != nil {
		_ = from.Close() // nothing was read
		return nil, nil, err
	}
	return readers, from, nil
}
