package sinks

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cepd/cepd/cep"
)

// The stored form of a message, which docs/format/message.md draws:
//
//	version 01 | kind | id 32 | chain 32 | sequence uint | time int | rule text | what text | severity text | key text | body text
//
// uint and int are varints of encoding/binary, a text is its length as uint and its bytes. Who stores it adds the checksum.
const messageVersion = 1

// MessageMax is the size of a stored message above which reading refuses it: an alert may hold 10,000 events of 1 MiB in
// principle, and what is sent at once is far below; 1 GiB only says that a length is no damage.
const MessageMax = 1 << 30

var errMessage = errors.New("malformed message")

// AppendMessage appends the stored form of m.
func AppendMessage(dst []byte, m *Message) []byte {
	dst = append(dst, messageVersion, byte(m.Kind))
	dst = append(dst, m.ID[:]...)
	dst = append(dst, m.Chain[:]...)
	dst = binary.AppendUvarint(dst, m.Sequence)
	dst = binary.AppendVarint(dst, int64(m.Time))
	dst = appendText(dst, m.Rule)
	dst = appendText(dst, m.What)
	dst = appendText(dst, m.Severity)
	dst = appendText(dst, m.Key)
	return appendText(dst, m.Body)
}

func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// ReadMessage reads what AppendMessage made. The message refers to data.
func ReadMessage(data []byte) (Message, error) {
	var m Message
	if len(data) < 2+len(m.ID)+len(m.Chain) || len(data) > MessageMax {
		return Message{}, fmt.Errorf("%w: %d bytes", errMessage, len(data))
	}
	if data[0] != messageVersion {
		return Message{}, fmt.Errorf("%w: version %d, this program reads version %d", errMessage, data[0], messageVersion)
	}
	if int(data[1]) >= len(kindNames) {
		return Message{}, fmt.Errorf("%w: kind %d", errMessage, data[1])
	}
	m.Kind = Kind(data[1])
	rest := data[2:]
	rest = rest[copy(m.ID[:], rest):]
	rest = rest[copy(m.Chain[:], rest):]
	var n int
	if m.Sequence, n = binary.Uvarint(rest); n <= 0 {
		return Message{}, fmt.Errorf("%w: sequence", errMessage)
	}
	rest = rest[n:]
	t, n := binary.Varint(rest)
	if n <= 0 {
		return Message{}, fmt.Errorf("%w: time", errMessage)
	}
	m.Time, rest = cep.Time(t), rest[n:]
	var text [5][]byte
	for i := range text {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return Message{}, fmt.Errorf("%w: text %d of %d", errMessage, i+1, len(text))
		}
		text[i], rest = rest[n:n+int(size)], rest[n+int(size):]
	}
	if len(rest) > 0 {
		return Message{}, fmt.Errorf("%w: %d bytes behind its end", errMessage, len(rest))
	}
	m.Rule, m.What, m.Severity, m.Key, m.Body = string(text[0]), string(text[1]), string(text[2]), cep.Key(text[3]), text[4]
	return m, nil
}
