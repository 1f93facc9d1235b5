package nfa

// The brakes of S5.8 keep a rule whose keys or state grow beyond all plans from taking the process with it. They stand
// outside the promise of equal output, and every use is counted: a service that brakes is degraded and says so.
//
// Each of 256 slots, into which keys fall by a hash of rule and key, has a 256th of a limit: so what a slot may hold does not
// depend on which other slots the same machine owns, however many workers there are.
const brakeSlots = 256

// Sizes in bytes that weights count with. They are those of the structs on a 64-bit machine and a guess for texts: a weight
// is an estimate, rather too high than too low.
const (
	runsBytes  = 64 + 24 // with the slot of the hash table and the key's header
	startBytes = 80 + 16 // with its deadline
	runBytes   = 56
	nodeBytes  = 64
	valueBytes = 24 + 32 // a value, and the text behind it
	heldBytes  = 56
)

// brake holds the state of a machine against the limits of its rule.
type brake struct {
	slots    Slots
	keysMax  int   // of a slot; 0: any number
	bytesMax int64 // of a slot; 0: any number
	keys     [brakeSlots]int
	bytes    [brakeSlots]int64
	weights  map[string]weight // by key; only with bytesMax
}

// weight is what the state of a key weighs.
type weight struct {
	bytes int64
	// since is the number of events since it was weighed. Weighing costs O(runs of the key), so a key is weighed again
	// after as many events as it has starts, and until then each event adds a node.
	since int
}

// newBrake returns nil where the rule has no brakes: then nothing is counted.
func newBrake(p *Pattern) *brake {
	if p.Limits.KeysMax <= 0 && p.Limits.StateBytes <= 0 {
		return nil
	}
	share := func(n int64) int64 { return (max(n, 0) + brakeSlots - 1) / brakeSlots }
	b := &brake{slots: SlotsOf(p.Rule), keysMax: int(share(int64(p.Limits.KeysMax))), bytesMax: share(p.Limits.StateBytes)}
	if b.bytesMax > 0 {
		b.weights = map[string]weight{}
	}
	return b
}

// Slots are the 256 parts into which the keys of a rule fall, the same in every process: a shard owns whole slots.
type Slots uint32

// The constants of FNV-1a.
const (
	fnvBasis = 2166136261
	fnvPrime = 16777619
)

// SlotsOf returns the slots of a rule.
func SlotsOf(rule string) Slots {
	h := uint32(fnvBasis)
	for i := range len(rule) {
		h = (h ^ uint32(rule[i])) * fnvPrime
	}
	return Slots(h * fnvPrime)
}

// Of returns the slot of a key.
func (s Slots) Of(key []byte) uint8 { return slotOf(s, key) }

func slotOf[T ~string | ~[]byte](s Slots, key T) uint8 {
	h := uint32(s)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * fnvPrime
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}

// crowded says whether the slot of a key that has no state has no room for another key.
func (b *brake) crowded(key []byte) bool {
	return b != nil && b.keysMax > 0 && b.keys[slotOf(b.slots, key)] >= b.keysMax
}

// heavy says whether the slot of a key must not hold more than it does.
func (b *brake) heavy(key []byte) bool {
	return b != nil && b.bytesMax > 0 && b.bytes[slotOf(b.slots, key)] >= b.bytesMax
}

// settle notes what has become of a key after an event or a deadline: whether it was there before and is there now, how many
// starts it has, and how to weigh it.
func (b *brake) settle(key string, was, is bool, starts int, weigh func() int64) {
	slot := slotOf(b.slots, key)
	switch {
	case is && !was:
		b.keys[slot]++
	case was && !is:
		b.keys[slot]--
	}
	if b.weights == nil {
		return
	}
	w, known := b.weights[key]
	before := w.bytes
	switch {
	case !is:
		w.bytes = 0
		delete(b.weights, key)
	case !known || w.since >= starts:
		w = weight{bytes: weigh()}
	default:
		w.bytes += nodeBytes + valueBytes
		w.since++
	}
	if is {
		b.weights[key] = w
	}
	b.bytes[slot] += w.bytes - before
}

// weigh estimates what the state of a key takes. Chains that starts share are counted for each.
func (r *Runs) weigh() int64 {
	sum := int64(runsBytes + len(r.key))
	for s := r.oldest; s != nil; s = s.next {
		sum += startBytes
		longest := s.first
		for _, t := range s.runs() {
			sum += runBytes + t.node.weigh()
			if t.node != nil && (longest == nil || t.node.length > longest.length) {
				longest = t.node
			}
		}
		if longest != nil {
			sum += int64(longest.length) * longest.weigh()
		}
	}
	if x := r.rare; x != nil {
		for i := range x.held {
			sum += heldBytes + int64(x.held[i].node.length)*x.held[i].node.weigh()
		}
		for i := range x.log {
			sum += runBytes + x.log[i].node.weigh()
			for _, k := range x.log[i].kept {
				sum += k.weigh()
			}
		}
		for _, m := range x.memories {
			if m == nil {
				continue
			}
			sum += nodeBytes + m.event.weigh()
			for _, p := range m.past {
				sum += p.event.weigh() + p.prev.weigh()
			}
			if m.met != nil {
				sum += int64(len(m.met.values)) * (valueBytes + nodeBytes)
			}
		}
	}
	return sum
}

func (n *node) weigh() int64 {
	if n == nil {
		return 0
	}
	return nodeBytes + n.kept.weigh()
}

func (k *kept) weigh() int64 {
	if k == nil {
		return 0
	}
	return int64(len(k.values))*valueBytes + int64(len(k.raw)) + runBytes
}

// weigh estimates what the state of a row pattern's key takes: the events since its start, and a chain for each way.
func (k *rowKey) weigh() int64 {
	sum := int64(runsBytes + len(k.key))
	for i := range k.events {
		sum += runBytes + k.events[i].node.weigh()
	}
	for _, w := range k.ways {
		sum += runBytes
		if w.node != nil {
			sum += int64(w.node.length) * nodeBytes
		}
	}
	return sum
}
