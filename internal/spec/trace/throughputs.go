package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/perf"
)

// maxTable bounds a file of speeds, which is read as a whole.
const maxTable = 256 << 20

// ReadThroughputs reads a table in Gavel's format, gzip or plain: worker -> "('model',
// scale)" -> "null" with the throughput alone in steps per second, or another such key with
// the two throughputs side by side.
func ReadThroughputs(path string) (*perf.Throughputs, error) {
	c, err := openValue(path)
	if err != nil {
		return nil, err
	}
	return throughputs(c)
}

func throughputs(c *cursor) (*perf.Throughputs, error) {
	t := c.table()
	c.end()
	if c.err != nil {
		return nil, c.err
	}
	return t, nil
}

// table reads a table in Gavel's format.
func (c *cursor) table() *perf.Throughputs {
	var alone []perf.Alone
	var pairs []perf.Pair
	c.object(func(key []byte) {
		worker := c.names.of(key)
		c.object(func(key []byte) {
			a := c.work(key)
			c.object(func(key []byte) {
				if string(key) == "null" {
					alone = append(alone, perf.Alone{Worker: worker, Work: a, Rate: c.rate()})
					return
				}
				p := perf.Pair{Worker: worker, A: a, B: c.work(key)}
				p.RateA, p.RateB = c.rates()
				pairs = append(pairs, p)
			})
		})
	})
	return perf.NewThroughputs(alone, pairs)
}

// rate reads steps per second.
func (c *cursor) rate() perf.Rate { return perf.Rate(c.number(9, span{0, maxTime})) }

// rates reads a list of two.
func (c *cursor) rates() (a, b perf.Rate) {
	n := 0
	c.look()
	at := c.at
	c.array(func() {
		r := c.rate()
		if n == 0 {
			a = r
		} else {
			b = r
		}
		n++
	})
	if n != 2 {
		c.fail(at, "bad table", "want a list of two throughputs, found %d", n)
	}
	return a, b
}

// work reads "('model', scale)", a tuple as Python prints it.
func (c *cursor) work(key []byte) perf.Work {
	s := string(key)
	inner, ok := strings.CutPrefix(s, "('")
	model, number, found := strings.Cut(inner, "', ")
	number, closed := strings.CutSuffix(number, ")")
	scale, err := strconv.ParseInt(number, 10, 32)
	if !ok || !found || !closed || err != nil || scale < 1 || scale > MaxGPUs {
		c.fail(c.at, "bad table", "%s names no work; want ('model', GPUs)", quoted(key))
		return perf.Work{}
	}
	return perf.Work{Model: c.names.of([]byte(model)), Scale: int32(scale)}
}

// ReadSpreads reads the Chronus artifact's model_info.json: model -> GPUs -> nodes ->
// relative speed.
func ReadSpreads(path string) (*perf.Spreads, error) {
	c, err := openValue(path)
	if err != nil {
		return nil, err
	}
	return spreads(c)
}

func spreads(c *cursor) (*perf.Spreads, error) {
	var list []perf.Spread
	c.object(func(key []byte) {
		s := perf.Spread{Model: c.names.of(key)}
		c.object(func(key []byte) {
			s.GPUs = c.countKey(key)
			c.object(func(key []byte) {
				s.Nodes = c.countKey(key)
				s.Speed = perf.Speed(c.number(6, span{0, 1000 * int64(perf.FullSpeed)}))
				list = append(list, s)
			})
		})
	})
	c.end()
	if c.err != nil {
		return nil, c.err
	}
	return perf.NewSpreads(list), nil
}

func (c *cursor) countKey(key []byte) int32 {
	n, err := strconv.ParseInt(string(key), 10, 32)
	if err != nil || n < 1 || n > MaxGPUs {
		c.fail(c.at, notANumber, "%s is no number of GPUs or nodes", quoted(key))
		return 0
	}
	return int32(n)
}

// openValue reads a file that is one JSON value.
func openValue(path string) (*cursor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the table: %w", err)
	}
	defer f.Close()
	return readValue(path, f)
}

func readValue(name string, in io.Reader) (*cursor, error) {
	l, err := newLines(name, in, maxTable)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(l.buf)
	if err != nil {
		return nil, l.broken(err)
	}
	return &cursor{file: name, b: b, line: 1, names: &interner{}}, nil
}

// ReadSamples reads GPU-seconds of past jobs, the input of a Gittins index. The file has a
// line "duration", then one number a line (yarn-gput of the Tiresias simulator). The result
// is sorted.
func ReadSamples(path string) ([]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the samples: %w", err)
	}
	defer f.Close()
	return readSamples(path, f)
}

func readSamples(name string, in io.Reader) ([]int64, error) {
	t, fields, err := smallTable(name, in, "duration")
	if err != nil {
		return nil, err
	}
	var out []int64
	for {
		r, err := t.read()
		if errors.Is(err, io.EOF) {
			slices.Sort(out)
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		v := r.whole(fields[0], anyCount)
		if r.err != nil {
			return nil, r.err
		}
		out = append(out, v)
	}
}

// smallTable opens one of the files beside a trace.
func smallTable(name string, in io.Reader, columns ...string) (*table, []field, error) {
	l, err := newLines(name, in, maxTable)
	if err != nil {
		return nil, nil, err
	}
	t := newTable(l, ',')
	fields, err := t.header(columns...)
	if errors.Is(err, io.EOF) {
		err = &Error{File: name, Kind: "empty", Text: "the file is empty"}
	}
	return t, fields, err
}
