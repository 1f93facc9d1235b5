package kafkawire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	// maxMetadataTTL is how old the list of brokers may be. After an orderly stop of a leader a client went on after 60 ms
	// with 300 ms, and after up to 6 s with kafka-go's default.
	maxMetadataTTL = time.Second
	// defaultRequestTimeout bounds one request. Answers take milliseconds; replication that waits for a slow replica takes
	// up to the broker's replica.lag.time.max.ms, 30 s, and is then an answer of its own.
	defaultRequestTimeout = 10 * time.Second
	// dialTimeout bounds one connection's making: a broker that is there answers within the way there and back.
	dialTimeout = 3 * time.Second
	// defaultRetryFor bounds the repetitions of one call: a single broker that was killed was back after 3 to 5 s, its
	// coordinators after up to 3.4 s more.
	defaultRetryFor = 15 * time.Second
	// Between two tries: markers of a transaction take 3 to 5 ms, elections hundreds.
	minPause, maxPause = time.Millisecond, 200 * time.Millisecond
	software           = "cepd"
)

// Config says which cluster, and how to get in.
type Config struct {
	// Brokers are addresses to begin with, host:port; the others are found.
	Brokers []string
	// ClientID names us in the brokers' logs and quotas; default "cepd".
	ClientID string
	// TLS is used for every connection; nil: plain text. ServerName "" is the host that is dialled.
	TLS *tls.Config
	// SASL is shown on every connection; nil: none.
	SASL *SASL
	// MetadataTTL is the longest time for which a broker that moved is not found; default and highest 1 s.
	MetadataTTL time.Duration
	// RequestTimeout bounds one request (default 10 s), RetryFor all tries of a call that is repeated (default 15 s).
	RequestTimeout, RetryFor time.Duration
	// Dial makes connections; nil: net.Dialer with a limit of 3 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets what is repeated, at Debug; nil: nothing.
	Logger *slog.Logger
}

// Client is one cluster. Its calls repeat what [Retriable] names for up to Config.RetryFor, but for those that say that they ask
// once.
type Client struct {
	config    Config
	transport *kafka.Transport
	seeds     net.Addr
	log       *slog.Logger
	stop      context.CancelFunc
	ids       correlations
	// dials counts connections: a new one may be one to a broker that has restarted.
	dials atomic.Int64
	// reached is set once any broker has answered anything: then an end of a connection is a broker that left.
	reached atomic.Bool

	mu       sync.Mutex
	versions map[int32]*brokerVersions
	leaders  map[TopicID]Topic
	coords   map[coordinator]int32
}

// NewClient checks the configuration. It connects to nothing yet.
func NewClient(config Config) (*Client, error) {
	if len(config.Brokers) == 0 {
		return nil, errors.New("kafka: no brokers: give at least one host:port")
	}
	for _, b := range config.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" {
			return nil, fmt.Errorf("kafka: broker %q is not host:port", b)
		}
	}
	mechanism, err := config.SASL.mechanism()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	if config.ClientID == "" {
		config.ClientID = software
	}
	if config.MetadataTTL <= 0 || config.MetadataTTL > maxMetadataTTL {
		config.MetadataTTL = maxMetadataTTL
	}
	if config.RequestTimeout <= 0 {
		config.RequestTimeout = defaultRequestTimeout
	}
	if config.RetryFor <= 0 {
		config.RetryFor = defaultRetryFor
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		config: config,
		transport: &kafka.Transport{
			ClientID: config.ClientID, TLS: config.TLS, SASL: mechanism, MetadataTTL: config.MetadataTTL,
			// No topics: who leads what is asked by us, with ids and epochs, and a cluster may have thousands of them.
			MetadataTopics: []string{},
			Context:        ctx,
		},
		seeds:    kafka.TCP(config.Brokers...),
		log:      config.Logger,
		stop:     stop,
		versions: map[int32]*brokerVersions{},
		leaders:  map[TopicID]Topic{},
		coords:   map[coordinator]int32{},
	}
	c.transport.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dials.Add(1)
		return dial(ctx, network, address)
	}
	return c, nil
}

// Close closes the connections that are idle; those in use close when their request ends.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.stop()
}

// brokerVersions is what one broker speaks.
type brokerVersions struct {
	ranges map[int16][2]int16
	// transactions is the level of transaction.version that the cluster has finalized.
	transactions int16
}

// ApiVersions v3 (KIP-511; finalized features KIP-584). kafka-go asks too, on each connection, but keeps its own choice.
func (c *Client) brokerVersions(ctx context.Context, broker int32) (*brokerVersions, error) {
	c.mu.Lock()
	v := c.versions[broker]
	c.mu.Unlock()
	if v != nil {
		return v, nil
	}
	var r request
	r.string(software)
	r.string("1")
	r.noTags()
	a, err := c.exchange(ctx, broker, apiVersions, r.b, 0)
	if err != nil {
		return nil, err
	}
	v = &brokerVersions{ranges: map[int16][2]int16{}}
	code := Code(a.i16())
	if code == CodeUnsupportedVersion {
		return nil, fmt.Errorf("the broker is older than Kafka %s; Kafka %s or later is needed", apiVersions.since, apiFetch.since)
	}
	for n := a.length(); n > 0 && a.err == nil; n-- {
		key := a.i16()
		v.ranges[key] = [2]int16{a.i16(), a.i16()}
		a.tags()
	}
	a.i32() // throttle
	a.tagged(func(tag uint64, f *answer) {
		if tag != 2 { // FinalizedFeatures
			return
		}
		for n := f.length(); n > 0 && f.err == nil; n-- {
			name, level := f.string(), f.i16()
			f.i16()
			f.tags()
			if name == "transaction.version" {
				v.transactions = level
			}
		}
	})
	if err := refused(apiVersions, code, ""); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, fmt.Errorf("%s: %w", apiVersions.name, a.err)
	}
	c.mu.Lock()
	c.versions[broker] = v
	c.mu.Unlock()
	return v, nil
}

func (v *brokerVersions) speaks(a api) bool {
	r, ok := v.ranges[a.key]
	return ok && r[0] <= a.version && a.version <= r[1]
}

// ask sends one request once and returns the body of the answer. Versions are held against what the broker speaks first,
// since a broker hangs up on a version that it does not know.
func (c *Client) ask(ctx context.Context, broker int32, a api, body []byte, wait time.Duration) (answer, error) {
	v, err := c.brokerVersions(ctx, broker)
	if err != nil {
		return answer{}, err
	}
	if !v.speaks(a) {
		r := v.ranges[a.key]
		return answer{}, fmt.Errorf("the broker does not speak %s version %d (it has %d to %d): Kafka %s or later is needed, and a cepd that knows it", a.name, a.version, r[0], r[1], a.since)
	}
	return c.exchange(ctx, broker, a, body, wait)
}

func (c *Client) exchange(ctx context.Context, broker int32, a api, body []byte, wait time.Duration) (answer, error) {
	limit, cancel := context.WithTimeout(ctx, c.config.RequestTimeout+wait)
	defer cancel()
	one := call{api: a, client: c.config.ClientID, id: c.ids.next(), body: body}
	var m protocol.Message = &one
	if broker != anyBroker {
		m = &brokerCall{one, broker}
	}
	got, err := c.transport.RoundTrip(limit, c.seeds, m)
	if err != nil {
		c.forgetBroker(broker)
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = &timeoutError{c.config.RequestTimeout + wait}
		}
		if code, ok := errors.AsType[kafka.Error](err); ok { // kafka-go's own words for the same codes
			err = &clientError{Code(code), err}
		}
		where := "any broker of " + c.seeds.String()
		if broker != anyBroker {
			where = fmt.Sprintf("broker %d", broker)
		}
		return answer{}, fmt.Errorf("%s to %s: %w", a.name, where, c.explain(err))
	}
	c.reached.Store(true)
	return answer{b: got.(*reply).body}, nil
}

// forgetBroker drops what is known of a broker that did not answer: it may come back as a newer one.
func (c *Client) forgetBroker(broker int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.versions, broker)
	for k, b := range c.coords {
		if b == broker {
			delete(c.coords, k)
		}
	}
}

// clientError is a code that kafka-go found, not a broker.
type clientError struct {
	code Code
	err  error
}

func (e *clientError) Error() string   { return e.err.Error() }
func (e *clientError) Unwrap() []error { return []error{e.code, e.err} }

type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %v", e.limit) }

// transport says that a connection failed, rather than what was asked on it.
func transport(err error) bool {
	if _, ok := errors.AsType[*securityError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*timeoutError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed)
}

// refused makes an error of a code.
func refused(a api, code Code, text string) error {
	if code == codeNone {
		return nil
	}
	return &BrokerError{API: a.name, Code: code, Text: text}
}

// retry repeats f while it fails with what may pass.
func (c *Client) retry(ctx context.Context, what string, f func() error) error {
	return c.retryFor(ctx, c.config.RetryFor, what, f, Retriable)
}

func (c *Client) retryFor(ctx context.Context, limit time.Duration, what string, f func() error, passing func(error) bool) error {
	end := time.Now().Add(limit)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := f()
		if err == nil || !passing(err) || time.Now().After(end) {
			return err
		}
		c.log.DebugContext(ctx, "again", "what", what, "err", err)
		if waited := sleep(ctx, pause); waited != nil {
			return fmt.Errorf("%w (before that: %w)", waited, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// coordinator is what has one: a group, or a transactional id.
type coordinator struct {
	kind int8
	name string
}

const (
	groupCoordinator       int8 = 0
	transactionCoordinator int8 = 1
)

// askCoordinator sends a request to the broker that keeps a group or a transactional id. FindCoordinator v3: kafka-go asks
// it before each request, ignores its errors and then asks any broker; here its answer is kept until somebody says otherwise.
func (c *Client) askCoordinator(ctx context.Context, of coordinator, a api, body []byte) (answer, error) {
	c.mu.Lock()
	broker, ok := c.coords[of]
	c.mu.Unlock()
	if !ok {
		var r request
		r.string(of.name)
		r.i8(of.kind)
		r.noTags()
		got, err := c.ask(ctx, anyBroker, apiFindCoord, r.b, 0)
		if err != nil {
			return answer{}, err
		}
		got.i32() // throttle
		code, text := Code(got.i16()), got.string()
		broker = got.i32()
		if err := refused(apiFindCoord, code, text); err != nil {
			return answer{}, err
		}
		if got.err != nil {
			return answer{}, fmt.Errorf("%s: %w", apiFindCoord.name, got.err)
		}
		c.mu.Lock()
		c.coords[of] = broker
		c.mu.Unlock()
	}
	return c.ask(ctx, broker, a, body, 0)
}

// moved forgets a coordinator whose broker says it is none.
func (c *Client) moved(of coordinator, code Code) {
	if code == CodeNotCoordinator || code == CodeCoordinatorNotAvail {
		c.mu.Lock()
		delete(c.coords, of)
		c.mu.Unlock()
	}
}
