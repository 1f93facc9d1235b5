package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

const styles = `text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1b2433; text-anchor: middle; }
  .head { font-weight: bold; }
  .label { font-size: 11px; fill: #4a5568; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
  .side { text-anchor: start; }
  rect { fill: #fff; stroke: #44546a; }
  .start { fill: #e8eef7; }
  .excluded { stroke-dasharray: 4 3; }
  .absent { fill: #fdecea; stroke: #b3261e; stroke-dasharray: 6 3; }
  .junction { fill: #f2f2f2; stroke: #b8bec8; }
  .end { fill: #e6f4ea; stroke: #1e7d3c; stroke-width: 2; }
  path { fill: none; stroke: #44546a; }
  .dashed { stroke-dasharray: 4 3; }
  marker path { fill: #44546a; stroke: none; }`

// SVG draws the graph as a picture that needs nothing else.
func (g *Graph) SVG() []byte {
	d := draw(g)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img">`+"\n", d.width, d.height, d.width, d.height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n  %s\n</style>\n", xmlText(g.Name), styles)
	b.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" style="fill: #fff; stroke: none"/>`+"\n", d.width, d.height)
	for i, e := range d.Edges {
		d.edge(&b, e, d.paths[i])
	}
	for i, n := range d.Nodes {
		d.node(&b, n, d.items[i])
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (d *drawing) node(b *bytes.Buffer, n Node, it *item) {
	round := 3
	if n.Kind == Start || n.Kind == End || n.Kind == Junction {
		round = 12
	}
	fmt.Fprintf(b, "<g><title>%s</title>", xmlText(n.Full))
	fmt.Fprintf(b, `<rect class="%s" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="%d"/>`, classes[n.Kind], it.x-it.box/2, it.y-it.height/2, it.box, it.height, round)
	for i, l := range n.Lines {
		class := ""
		if i == 0 && n.Kind != Junction {
			class = ` class="head"`
		}
		fmt.Fprintf(b, `<text%s x="%.0f" y="%.0f">%s</text>`, class, it.x, it.y-it.height/2+padding+float64(i*lineHeight)+10, xmlText(l))
	}
	b.WriteString("</g>\n")
}

func (d *drawing) edge(b *bytes.Buffer, e Edge, path []*item) {
	from, to := d.items[e.From], d.items[e.To]
	class := ""
	if e.Dashed {
		class = ` class="dashed"`
	}
	line := func(format string, args ...any) {
		fmt.Fprintf(b, `<path%s d="%s" marker-end="url(#arrow)"/>`+"\n", class, fmt.Sprintf(format, args...))
	}
	switch {
	case e.From == e.To:
		x, y := from.x+from.box/2, from.y
		line("M%.0f,%.0f C%.0f,%.0f %.0f,%.0f %.0f,%.0f", x, y+8, x+loopWidth, y+18, x+loopWidth, y-18, x, y-8)
		label(b, "label side", x+loopWidth-4, y+4, e.Label)
	case e.Back:
		x, out := d.right(e), from.x+from.box/2
		line("M%.0f,%.0f C%.0f,%.0f %.0f,%.0f %.0f,%.0f", out, from.y, x+loopWidth/2, from.y, x+loopWidth/2, to.y, to.x+to.box/2, to.y)
		label(b, "label side", x-loopWidth/2, (from.y+to.y)/2, e.Label)
	default:
		var points strings.Builder
		fmt.Fprintf(&points, "M%.0f,%.0f", from.x, from.y+from.height/2)
		for i := 1; i < len(path); i++ {
			above, below := path[i-1], path[i]
			y, to := above.y+above.height/2, below.y-below.height/2
			fmt.Fprintf(&points, " C%.0f,%.0f %.0f,%.0f %.0f,%.0f", above.x, (y+to)/2, below.x, (y+to)/2, below.x, to)
			if below.node < 0 {
				fmt.Fprintf(&points, " V%.0f", below.y+below.height/2)
			}
		}
		line("%s", points.String())
		above, below := path[0], path[1]
		label(b, "label", (above.x+below.x)/2, (above.y+above.height/2+below.y-below.height/2)/2+4, e.Label)
	}
}

func label(b *bytes.Buffer, class string, x, y float64, text string) {
	if text != "" {
		fmt.Fprintf(b, `<text class="%s" x="%.0f" y="%.0f">%s</text>`+"\n", class, x, y, xmlText(text))
	}
}

var classes = [...]string{Start: "start", Step: "step", Excluded: "excluded", Absent: "absent", Junction: "junction", End: "end"}

// xmlText escapes a text; what XML cannot hold becomes U+FFFD.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
