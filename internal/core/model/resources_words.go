package model

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// The microseconds of which spans are made.
const (
	millisecond = 1000
	second      = 1000 * millisecond
	minute      = 60 * second
	hour        = 60 * minute
)

// FewText lists the first names, at most so many, and says how many more there are.
func FewText(names []string, most int) string {
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

// SpanText shows a span of so many microseconds in words: "1 h 5 min".
func SpanText(d int64) string {
	switch {
	case d < second:
		return fmt.Sprintf("%d ms", d/millisecond)
	case d < minute:
		return fmt.Sprintf("%d s", (d+second-1)/second)
	case d < hour:
		return fmt.Sprintf("%d min %d s", d/minute, d%minute/second)
	}
	return fmt.Sprintf("%d h %d min", d/hour, d%hour/minute)
}

// AtMostText is SpanText rounded up: to seconds below a minute, else to minutes.
func AtMostText(d int64) string {
	switch n := (d + minute - 1) / minute; {
	case d <= second:
		return "1 s"
	case d < minute:
		return SpanText(d)
	case n < 60:
		return fmt.Sprintf("%d min", n)
	default:
		return fmt.Sprintf("%d h %d min", n/60, n%60)
	}
}

// NodesText lists nodes.
func NodesText(ns []cell.NodeName) string {
	if len(ns) == 0 {
		return "no node"
	}
	var out []string
	for _, n := range ns {
		out = append(out, string(n))
	}
	return strings.Join(out, ", ")
}
