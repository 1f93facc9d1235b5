package rulesapi

import "github.com/cepd/cepd/cep"

// Feed has the newest alerts of a job, for those who ask and those who listen. It is made before the job, which tells it of
// each durable epoch.
type Feed struct {
	encode func(dst []byte, a *cep.Alert) []byte
	epoch  cep.Epoch
}

// NewFeed returns a feed that begins behind an epoch: the newest durable one, 0 where there is none. encode appends an alert as
// JSON, without a line end.
func NewFeed(epoch cep.Epoch, encode func(dst []byte, a *cep.Alert) []byte) *Feed {
	return &Feed{encode: encode, epoch: epoch}
}

// Committed adds the alerts of an epoch. The job calls it in the order of epochs; it does not block.
func (f *Feed) Committed(epoch cep.Epoch, alerts []*cep.Alert) { f.epoch = epoch }
