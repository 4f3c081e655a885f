package metrics

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/combsched/comb/internal/core/model"
)

// A chart is an SVG drawing that works without a script, in light and dark, and in screen
// readers. It has a title and a description, and marks that need it have titles. Colours come
// from chartStyle by class. A chart fits into a page, and with the style put in it is a file
// of its own.
type chart struct {
	b             strings.Builder
	id            string
	width, height float64
	// The box in which the data lie.
	left, top, right, bottom float64
	x, y                     axis
}

// chartWidth is the width of all charts, in units of the drawing.
const chartWidth = 880

// newChart begins a chart whose data lie in a box of this height. Screen readers read title
// and description.
func newChart(id, title, description string, box float64) *chart {
	c := &chart{id: id, width: chartWidth, left: 64, right: chartWidth - 24, top: 64}
	c.bottom = c.top + box
	c.height = c.bottom + 44
	c.addf(`<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d">`, px(c.width), px(c.height), id, id)
	c.addf(`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, esc(title), id, esc(description))
	c.addf(`<text class="head" x="0" y="18">%s</text>`, esc(title))
	return c
}

func (c *chart) addf(format string, args ...any) { fmt.Fprintf(&c.b, format, args...) }

// String ends the chart and returns it.
func (c *chart) String() string { return c.b.String() + "</svg>" }

// file makes a file of a chart.
func file(svg string) string {
	return strings.Replace(svg, ">", "><style>"+chartStyle+`.chart{background:var(--paper)}</style>`, 1) + "\n"
}

// chartStyle are the colours of charts: eight series that people with colour blindness can
// tell apart, each brighter in the dark.
const chartStyle = `:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--mute:#57606a;--rule:#e1e5ea;` +
	`--c0:#0b69b7;--c1:#d9730d;--c2:#0a8f6a;--c3:#a8508a;--c4:#3aa0d8;--c5:#a98600;--c6:#7559b8;--c7:#8c5a3c;--none:#d5dae0;--bad:#b3261e}` +
	`@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6eaee;--mute:#9aa5b1;--rule:#2b323a;` +
	`--c0:#5aa9e6;--c1:#f2a154;--c2:#45c4a0;--c3:#d98cc0;--c4:#8fd0f5;--c5:#e0c341;--c6:#b09cf0;--c7:#c99b7d;--none:#3a434d;--bad:#ff8a80}}` +
	`.chart{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;fill:var(--mute)}` +
	`.chart .head{font-size:15px;font-weight:600;fill:var(--ink)}.chart .label{fill:var(--ink)}` +
	`.grid{stroke:var(--mute);stroke-opacity:.25;stroke-width:1}.axis{stroke:var(--mute);stroke-width:1}` +
	`.line{fill:none;stroke-width:2;stroke-linejoin:round}.thin{stroke-width:1.25}.dash{stroke-dasharray:6 3}.span{stroke:var(--none);stroke-width:2}` +
	`.cut{stroke:var(--ink);stroke-width:1.5}` +
	`.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}` +
	`.l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.l2{stroke:var(--c2)}.l3{stroke:var(--c3)}.l4{stroke:var(--c4)}.l5{stroke:var(--c5)}.l6{stroke:var(--c6)}.l7{stroke:var(--c7)}` +
	`.fnone{fill:var(--none)}.fbad{fill:var(--bad)}.link{stroke:var(--ink);stroke-width:2.5}`

// px formats a place in the drawing to a tenth.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// esc makes any text safe as content or as a quoted attribute, and drops what XML
// cannot hold.
func esc(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return '\ufffd'
		}
		return r
	}, s)
	return html.EscapeString(s)
}

// clip shortens a label to so many characters.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// axis maps values to places.
type axis struct {
	min, max float64
	from, to float64
	log      bool
}

func (s axis) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(max(v, s.min))
	}
	if hi <= lo {
		return s.from
	}
	return s.from + float64((v-lo)/(hi-lo)*(s.to-s.from))
}

// tick is a place on an axis.
type tick struct {
	at    float64
	label string
}

// valueTicks are about five round values from 0 to max, the last not below it.
func valueTicks(max float64) []tick {
	max = math.Max(max, 1) // they count things, so steps are at least 1
	step := math.Max(math.Pow(10, math.Floor(math.Log10(max/5))), 1)
	for _, k := range []float64{1, 2, 5, 10} {
		if max/(step*k) <= 6 {
			step *= k
			break
		}
	}
	var out []tick
	for i := 0; ; i++ {
		v := float64(i) * step
		out = append(out, tick{v, short(v)})
		if v >= max {
			return out
		}
	}
}

// short writes a value for an axis: three digits, thousands as k.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// timeUnits are the round times, in seconds.
var timeUnits = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400,
	5 * 86400, 10 * 86400, 20 * 86400, 50 * 86400, 100 * 86400, 200 * 86400, 500 * 86400}

// span writes seconds in the unit that fits.
func span(s float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if s >= u.size {
			return strconv.FormatFloat(math.Round(s/u.size*100)/100, 'f', -1, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(math.Round(s*100)/100, 'f', -1, 64) + " s"
}

// timeTicks are at most eight round times from 0 to max seconds.
func timeTicks(max float64) []tick {
	step := timeUnits[len(timeUnits)-1]
	for _, u := range timeUnits {
		if max/u <= 8 {
			step = u
			break
		}
	}
	for max/step > 8 {
		step *= 2
	}
	out := []tick{{0, "0"}}
	for v := step; v <= max; v += step {
		out = append(out, tick{v, span(v)})
	}
	return out
}

// logTicks are the round times of a logarithmic axis, at most nine.
func logTicks(min, max float64) []tick {
	all := []float64{0.001, 0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600,
		86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400, 365 * 86400}
	var out []tick
	for _, v := range all {
		if v >= min && v <= max {
			out = append(out, tick{v, span(v)})
		}
	}
	for len(out) > 9 {
		for i := range (len(out) + 1) / 2 {
			out[i] = out[2*i]
		}
		out = out[:(len(out)+1)/2]
	}
	return out
}

// axes draws the grid and the labels of both axes.
func (c *chart) axes(xs, ys []tick, xName string) {
	for _, t := range ys {
		y := px(c.y.at(t.at))
		c.addf(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/><text x="%s" y="%s" dy="4" text-anchor="end">%s</text>`,
			px(c.left), px(c.right), y, y, px(c.left-8), y, esc(t.label))
	}
	for _, t := range xs {
		x := px(c.x.at(t.at))
		c.addf(`<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/><text x="%s" y="%s" text-anchor="middle">%s</text>`,
			x, x, px(c.bottom), px(c.bottom+5), x, px(c.bottom+19), esc(t.label))
	}
	c.addf(`<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(c.left), px(c.right), px(c.bottom), px(c.bottom))
	c.addf(`<text x="%s" y="%s" text-anchor="middle">%s</text>`, px((c.left+c.right)/2), px(c.bottom+37), esc(xName))
}

// key is one entry of a legend; the class says how its sample is painted.
type key struct {
	class, label string
	line         bool
}

// legend writes the entries in a row under the title, as many as fit. The titles of the marks
// say the same.
func (c *chart) legend(keys []key) {
	x := 0.0
	for _, k := range keys {
		label := clip(k.label, 32)
		if w := 34 + 6.6*float64(utf8.RuneCountInString(label)); x+w > c.width {
			return
		}
		if k.line {
			c.addf(`<line class="line %s" x1="%s" x2="%s" y1="38" y2="38"/>`, k.class, px(x), px(x+16))
		} else {
			c.addf(`<rect class="%s" x="%s" y="33" width="12" height="10" rx="2"/>`, k.class, px(x+2))
		}
		c.addf(`<text class="label" x="%s" y="42">%s</text>`, px(x+21), esc(label))
		x += 34 + 6.6*float64(utf8.RuneCountInString(label))
	}
}

// point is one point of a line, in values.
type point struct{ x, y float64 }

// path draws a line through points; steps keeps each value up to the next point.
func (c *chart) path(class, title string, ps []point, steps bool) {
	if len(ps) == 0 {
		return
	}
	c.addf(`<path class="line %s" d="`, class)
	for i, p := range ps {
		switch {
		case i == 0:
			c.addf("M%s %s", px(c.x.at(p.x)), px(c.y.at(p.y)))
		case steps:
			c.addf("H%sV%s", px(c.x.at(p.x)), px(c.y.at(p.y)))
		default:
			c.addf("L%s %s", px(c.x.at(p.x)), px(c.y.at(p.y)))
		}
	}
	c.addf(`"><title>%s</title></path>`, esc(title))
}

// area fills between two lines of steps that have the same x.
func (c *chart) area(class, title string, low, high []point) {
	if len(high) == 0 {
		return
	}
	c.addf(`<path class="%s" d="M%s %s`, class, px(c.x.at(high[0].x)), px(c.y.at(high[0].y)))
	for _, p := range high[1:] {
		c.addf("H%sV%s", px(c.x.at(p.x)), px(c.y.at(p.y)))
	}
	last := len(low) - 1
	c.addf("V%s", px(c.y.at(low[last].y)))
	for i := last - 1; i >= 0; i-- {
		c.addf("V%sH%s", px(c.y.at(low[i].y)), px(c.x.at(low[i].x)))
	}
	c.addf(`Z"><title>%s</title></path>`, esc(title))
}

// box is a place in the drawing.
type box struct{ x, y, w, h float64 }

// bar draws one bar with a title.
func (c *chart) bar(class string, b box, title string) {
	c.addf(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
		class, px(b.x), px(b.y), px(max(b.w, 0.5)), px(b.h), esc(title))
}

// since is the time from one instant to another, in seconds.
func since(t, from model.Time) float64 { return float64(t-from) / float64(model.Second) }
