package memstore_test

import (
	"context"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

type world struct{ disk *memstore.Disk }

func (w world) Open(context.Context) (checkpoint.Store, error) { return w.disk.Open() }
func (w world) Crash() error                                   { w.disk.Crash(); return nil }
func (w world) Damage(e cep.Epoch) error                       { return w.disk.Damage(e) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(string) storetest.World { return world{memstore.NewDisk(memstore.Options{FoldEpochs: 5})} })
}
