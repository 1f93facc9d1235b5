package graph

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Sizes in pixels. A rune of a 12 pixel monospace font is at most 7.3 wide.
const (
	runeWidth  = 7.3
	lineHeight = 16
	padding    = 10
	betweenX   = 28 // boxes of a layer
	betweenY   = 46 // layers; a label fits in
	margin     = 16
	loopWidth  = 34 // the arc of an edge that leads back
)

// drawing is a graph with places. It is laid out in layers: each node stands below all that lead to it, edges that pass a
// layer have a place in it, and within the layers places are ordered so that few edges cross.
type drawing struct {
	*Graph
	items  []*item
	layers [][]*item
	// paths are the items that an edge goes through, from its first node to its last; nil for one that leads back.
	paths         [][]*item
	width, height float64
}

// item is a place in a layer: a node, or an edge that passes.
type item struct {
	node int // -1: an edge
	// x and y are the middle. width includes what stands right of a node: the arc and label of its loop.
	x, y, width, height float64
	// box is the width of the node itself.
	box      float64
	layer    int
	at       int // the place in the layer
	up, down []*item
}

func textWidth(s string) float64 { return float64(utf8.RuneCountInString(s)) * runeWidth }

func draw(g *Graph) *drawing {
	d := &drawing{Graph: g}
	d.place()
	for range 4 {
		d.order(func(i *item) []*item { return i.up })
		d.order(func(i *item) []*item { return i.down })
	}
	d.stand()
	return d
}

// place gives each node its layer, one below the lowest that leads to it. Edges lead from earlier nodes to later ones, so one
// walk does it.
func (d *drawing) place() {
	d.items = make([]*item, len(d.Nodes))
	for i, n := range d.Nodes {
		it := &item{node: i, height: float64(len(n.Lines)*lineHeight + 2*padding - 4)}
		for _, l := range n.Lines {
			it.box = max(it.box, textWidth(l))
		}
		it.box += 2 * padding
		it.width = it.box
		d.items[i] = it
	}
	for _, e := range d.Edges {
		from, to := d.items[e.From], d.items[e.To]
		switch {
		case e.From == e.To:
			from.width = max(from.width, from.box+2*(loopWidth+textWidth(e.Label)))
		case !e.Back:
			to.layer = max(to.layer, from.layer+1)
		}
	}
	put := func(it *item) {
		for len(d.layers) <= it.layer {
			d.layers = append(d.layers, nil)
		}
		it.at = len(d.layers[it.layer])
		d.layers[it.layer] = append(d.layers[it.layer], it)
	}
	for _, it := range d.items {
		put(it)
	}
	d.paths = make([][]*item, len(d.Edges))
	for i, e := range d.Edges {
		if e.Back {
			continue
		}
		last := d.items[e.From]
		d.paths[i] = []*item{last}
		for last != d.items[e.To] {
			next := d.items[e.To]
			if last.layer+1 < next.layer {
				next = &item{node: -1, layer: last.layer + 1, width: 8}
				put(next)
			}
			last.down, next.up = append(last.down, next), append(next.up, last)
			d.paths[i] = append(d.paths[i], next)
			last = next
		}
	}
}

// order sorts each layer by where the neighbours of its items stand, on average.
func (d *drawing) order(neighbours func(*item) []*item) {
	for _, layer := range d.layers {
		centre := map[*item]float64{}
		for _, it := range layer {
			centre[it] = float64(it.at)
			if list := neighbours(it); len(list) > 0 {
				centre[it] = 0
				for _, n := range list {
					centre[it] += float64(n.at) / float64(len(list))
				}
			}
		}
		slices.SortStableFunc(layer, func(a, b *item) int { return cmp.Compare(centre[a], centre[b]) })
		for i, it := range layer {
			it.at = i
		}
	}
}

// stand gives places to all items: rows from top to bottom, and in each as near as can be to what they are tied to.
func (d *drawing) stand() {
	y := float64(margin)
	for _, layer := range d.layers {
		height := 0.0
		for _, it := range layer {
			height = max(height, it.height)
		}
		for _, it := range layer {
			it.y = y + height/2
			if it.node < 0 {
				it.height = height
			}
		}
		y += height + betweenY
	}
	d.height = y - betweenY + margin
	all := func(it *item) []*item { return slices.Concat(it.up, it.down) }
	for range 12 {
		d.pull(func(it *item) []*item { return it.up })
		d.pull(func(it *item) []*item { return it.down })
	}
	d.pull(all)
	left, right := 0.0, 0.0
	for _, it := range d.allItems() {
		left, right = min(left, it.x-it.width/2), max(right, it.x+it.width/2)
	}
	for _, it := range d.allItems() {
		it.x += margin - left
	}
	d.width = right - left + 2*margin
	for _, e := range d.Edges {
		if e.Back && e.From != e.To {
			d.width = max(d.width, d.right(e)+textWidth(e.Label)+margin)
		}
	}
}

func (d *drawing) allItems() []*item { return slices.Concat(d.layers...) }

// pull moves the items of each layer towards their neighbours, without changing their order: of all places with room
// between them those with the least squares of what is missing. Where two would overlap, they and all that they touch move
// as one block, to the mean of where these want to be.
func (d *drawing) pull(neighbours func(*item) []*item) {
	for _, layer := range d.layers {
		type block struct {
			sum   float64 // of where the items want the first of the block to be
			count int
		}
		var blocks []block
		offsets := make([]float64, len(layer)) // from the first item of the layer, as close as can be
		for i, it := range layer {
			if i > 0 {
				offsets[i] = offsets[i-1] + layer[i-1].width/2 + betweenX + it.width/2
			}
			want := it.x
			if list := neighbours(it); len(list) > 0 {
				want = 0
				for _, n := range list {
					want += n.x / float64(len(list))
				}
			}
			blocks = append(blocks, block{want - offsets[i], 1})
			for n := len(blocks); n > 1 && blocks[n-2].sum/float64(blocks[n-2].count) >= blocks[n-1].sum/float64(blocks[n-1].count); n-- {
				blocks[n-2].sum += blocks[n-1].sum
				blocks[n-2].count += blocks[n-1].count
				blocks = blocks[:n-1]
			}
		}
		i := 0
		for _, b := range blocks {
			for range b.count {
				layer[i].x = b.sum/float64(b.count) + offsets[i]
				i++
			}
		}
	}
}

// right is how far to the right an edge that leads back has to go, past all boxes between its ends.
func (d *drawing) right(e Edge) float64 {
	x := 0.0
	for _, layer := range d.layers[d.items[e.To].layer : d.items[e.From].layer+1] {
		for _, it := range layer {
			x = max(x, it.x+it.width/2)
		}
	}
	return x + loopWidth/2
}
