package admin

import (
	"fmt"
	"strings"
)

// mostDiff bounds the table for the lines between the first and the last difference. Beyond
// it all of them count as changed.
const mostDiff = 16 << 20

// Diff compares two texts line by line. It returns removed lines with "-" and added ones with
// "+" before them, each group after a line with its place. Equal texts give no lines.
func Diff(was, is string) (out []string) {
	a, b := lines(was), lines(is)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	common := longestCommon(a, b)
	for i, j, open := 0, 0, false; i < len(a) || j < len(b); {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i, j, open = i+1, j+1, false
			continue
		}
		if !open {
			out = append(out, fmt.Sprintf("@@ line %d -> line %d @@", head+i+1, head+j+1))
			open = true
		}
		if i < len(a) && (j == len(b) || common(i+1, j) >= common(i, j+1)) { // removed lines come before added ones
			out = append(out, "-"+a[i])
			i++
		} else {
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}

// lines splits a text. A last line without a line end differs from one with it.
func lines(text string) []string {
	out := strings.Split(text, "\n")
	if last := len(out) - 1; out[last] == "" {
		return out[:last]
	} else {
		out[last] += " (no line end)"
	}
	return out
}

// longestCommon returns how many lines a and b have in common, in order, from lines i and j
// on; 0 where the table would be too large.
func longestCommon(a, b []string) func(i, j int) int32 {
	width := len(b) + 1
	if (len(a)+1)*width > mostDiff {
		return func(int, int) int32 { return 0 }
	}
	table := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			if a[i] == b[j] {
				table[at] = table[at+width+1] + 1
			} else {
				table[at] = max(table[at+width], table[at+1])
			}
		}
	}
	return func(i, j int) int32 { return table[i*width+j] }
}
