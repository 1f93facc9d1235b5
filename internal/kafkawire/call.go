package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	// maxAnswer bounds one answer. A fetch asks for 16 MiB, but a single batch that is larger comes whole; brokers refuse
	// messages above message.max.bytes, which nobody raises to this. A port that speaks something else ("HTTP" read as a
	// length is 1.2 GB) is found by it.
	maxAnswer = 256 << 20
	// anyBroker is the route of what every broker answers.
	anyBroker int32 = -1
)

// call is a request with a body of our own. kafka-go hands it the connection of the broker it is for, authenticated, and
// runs one request at a time on a connection.
type call struct {
	api    api
	client string
	id     int32
	body   []byte
}

// brokerCall is a call that one broker must answer.
type brokerCall struct {
	call
	broker int32
}

// reply is the body of an answer, behind its header.
type reply struct {
	key  int16
	body []byte
}

// correlations numbers calls, so that an answer which belongs to another one is noticed.
type correlations struct{ last atomic.Int32 }

func (c *correlations) next() int32 { return c.last.Add(1) }

// ApiKey is for [protocol.Message].
func (c *call) ApiKey() protocol.ApiKey { return protocol.ApiKey(c.api.key) } //nolint:revive // The interface's name.

// ApiKey is for [protocol.Message].
func (r *reply) ApiKey() protocol.ApiKey { return protocol.ApiKey(r.key) } //nolint:revive // The interface's name.

// Required is for [protocol.RawExchanger]: always, whatever kafka-go has negotiated.
func (*call) Required(map[protocol.ApiKey]int16) bool { return true }

// Broker is for [protocol.BrokerMessage].
func (c *brokerCall) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if b, ok := cluster.Brokers[c.broker]; ok {
		return b, nil
	}
	// kafka-go looks for brokers anew within MetadataTTL.
	return protocol.Broker{}, fmt.Errorf("broker %d: %w", c.broker, CodeBrokerNotAvailable)
}

// RawExchange writes the request with header version 2 and reads the answer with header version 1 (KIP-482), but for
// ApiVersions, whose answer has header version 0 for ever (KIP-511).
func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	b := make([]byte, 4, 32+len(c.client)+len(c.body))
	b = binary.BigEndian.AppendUint16(b, uint16(c.api.key))
	b = binary.BigEndian.AppendUint16(b, uint16(c.api.version))
	b = binary.BigEndian.AppendUint32(b, uint32(c.id))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.client)))
	b = append(b, c.client...)
	b = append(b, 0)
	b = append(b, c.body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:])) - 4
	if n < 0 || n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes (at most %d): is this a Kafka broker?", n+4, maxAnswer)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != c.id {
		return nil, fmt.Errorf("the answer to request %d came for request %d", got, c.id)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(rw, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if c.api.key != apiVersions.key {
		a := answer{b: body}
		a.tags()
		if a.err != nil {
			return nil, a.err
		}
		body = a.b
	}
	return &reply{c.api.key, body}, nil
}
