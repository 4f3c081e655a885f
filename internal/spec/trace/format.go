package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format names how a trace is written.
type Format string

// The formats; docs/traces.md has their columns and where to get the traces.
const (
	Auto        Format = "auto"
	Comb        Format = "comb"
	Philly      Format = "philly"
	PhillyCSV   Format = "philly-csv"
	Helios      Format = "helios"
	Alibaba2020 Format = "alibaba2020"
	Alibaba2023 Format = "alibaba2023"
	Tiresias    Format = "tiresias"
	Gavel       Format = "gavel"
	Chronus     Format = "chronus"
)

// format is one row of the table of formats.
type format struct {
	name Format
	// knows recognizes the format by the beginning of the file: the fields of its first line,
	// and all bytes that were looked at.
	knows func(first []string, head []byte) bool
	open  func(*lines, *opening) (source, error)
	// rebase says that time 0 of the file has no meaning of its own.
	rebase bool
}

// formats are in the order in which detection tries them, the strictest first.
func formats() []format {
	return []format{
		{Comb, func(_ []string, head []byte) bool { return bytes.HasPrefix(head, []byte(`{"`+combMark+`"`)) }, openComb, false},
		{Philly, knowsPhilly, openPhilly, true},
		{Chronus, has("expect_time_list", "job_type", "num_gpu"), openChronus, false},
		{Tiresias, has("num_gpu", "submit_time", "duration"), openTiresias, false},
		{PhillyCSV, has("submit_s", "duration_s", "num_gpus"), openPhillyCSV, false},
		{Helios, has("gpu_num", "state", "submit_time"), openHelios, true},
		{Alibaba2023, has("cpu_milli", "num_gpu", "creation_time"), openAlibaba2023, true},
		{Alibaba2020, knowsAlibaba2020, openAlibaba2020, true},
		{Gavel, knowsGavel, openGavel, false},
	}
}

// has returns a detector for names in the header.
func has(names ...string) func([]string, []byte) bool {
	return func(first []string, _ []byte) bool {
		for _, n := range names {
			if !slices.Contains(first, n) {
				return false
			}
		}
		return true
	}
}

func formatNamed(name Format) *format {
	for _, f := range formats() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

// FormatNames lists the formats for messages.
func FormatNames() string {
	names := []string{string(Auto)}
	for _, f := range formats() {
		names = append(names, string(f.name))
	}
	slices.Sort(names[1:])
	return strings.Join(names, ", ")
}

// Rebased reports whether a format's times start anywhere, so that InOrder moves the first
// job to 0.
func (f Format) Rebased() bool {
	known := formatNamed(f)
	return known != nil && known.rebase
}

// detect recognizes the format by the file's content.
func detect(l *lines) (Format, error) {
	head := l.peek()
	if len(bytes.TrimSpace(head)) == 0 {
		if _, err := l.next(); err != nil && !errors.Is(err, io.EOF) {
			return "", err // a read error says more than that nothing was read
		}
		return "", &Error{File: l.file, Kind: "empty", Text: "the file is empty"}
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var first []string
	for name := range strings.SplitSeq(string(line), ",") {
		first = append(first, strings.Trim(name, " \t\r\""))
	}
	for _, f := range formats() {
		if f.knows(first, head) {
			return f.name, nil
		}
	}
	return "", &Error{File: l.file, Line: 1, Kind: "unknown format",
		Text: fmt.Sprintf("cannot tell the format from %s; name it with --format: %s", quoted(line), FormatNames())}
}
