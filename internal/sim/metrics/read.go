package metrics

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// ReadJobs reads a jobs.csv and calls do for each row, which is valid during the
// call; times are relative to the run's origin. An error names the file, the line
// and the column.
func ReadJobs(r io.Reader, name string, do func(*Row) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return fmt.Errorf("%s:1: no header line: %w", name, err)
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		if at[i] = slices.Index(head, c); at[i] < 0 {
			return fmt.Errorf("%s:1: there is no column %q: it is not a jobs.csv of this version", name, c)
		}
	}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p := rowParser{fields: fields, at: at}
		row := p.row()
		if p.err != nil {
			line, _ := in.FieldPos(0)
			return fmt.Errorf("%s:%d: column %s: %w", name, line, columns[p.next-1], p.err)
		}
		if err := do(&row); err != nil {
			return err
		}
	}
}

// rowParser takes the fields of a row one after the other, in order of columns. It stops at
// the first that is wrong.
type rowParser struct {
	fields []string
	at     []int
	next   int
	err    error
}

func (p *rowParser) row() Row {
	r := Row{ID: model.JobID(p.int(math.MaxInt64)), TraceID: p.text(), Name: p.text(), VC: p.text(), User: p.text(), App: p.text(), Model: p.text(),
		GPUs: int32(p.int(math.MaxInt32)), Nodes: int32(p.int(math.MaxInt32)), Submit: model.Time(p.seconds()), Start: model.Time(p.seconds()),
		End: model.Time(p.seconds()), Phase: p.phase(), Cause: p.cause(), Class: p.text()}
	p.seconds() // jct_s follows from other columns
	r.Duration = model.Duration(p.seconds())
	p.seconds() // queue_s too
	r.FairShare, r.Fragmentation, r.BackOff = model.Duration(p.seconds()), model.Duration(p.seconds()), model.Duration(p.seconds())
	for _, n := range []*int32{&r.Attempts, &r.Preemptions, &r.Migrations, &r.Suspends} {
		*n = int32(p.int(math.MaxInt32))
	}
	for _, n := range []*uint64{&r.GPU, &r.Effective, &r.Shared, &r.Wasted, &r.Saved} {
		*n = uint64(max(p.seconds(), 0))
	}
	r.Rho, r.Miss = p.number(), p.number()
	return r
}

// text takes a field and copies it, since the reader reuses its memory.
func (p *rowParser) text() string {
	if p.err != nil {
		return ""
	}
	p.next++
	return strings.Clone(p.fields[p.at[p.next-1]])
}

// phase takes a job's phase.
func (p *rowParser) phase() model.Phase {
	s := model.Phase(p.text())
	if p.err == nil && s != model.Waiting && s != model.Active && !s.Ended() {
		p.err = fmt.Errorf("%q is no phase of a job", s)
	}
	return s
}

// cause takes the cause of the end of a job's last attempt.
func (p *rowParser) cause() (c model.EndCause) {
	if err := c.UnmarshalText([]byte(p.text())); p.err == nil {
		p.err = err
	}
	return c
}

func (p *rowParser) int(limit int64) int64 {
	s := p.text()
	if p.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > limit {
		p.err = fmt.Errorf("%q is not a whole number from 0 to %d", s, limit)
	}
	return n
}

func (p *rowParser) number() Number {
	s := p.text()
	if p.err != nil || s == "" {
		return undefined()
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.err = fmt.Errorf("%q is not a number", s)
	}
	return Number(v)
}

// seconds takes a time in seconds, "" as 0, and returns microseconds.
func (p *rowParser) seconds() int64 {
	s := p.text()
	if p.err != nil || s == "" {
		return 0
	}
	us, ok := parseSeconds(s)
	if !ok {
		p.err = fmt.Errorf("%q is not a number of seconds with at most six decimals", s)
	}
	return us
}

// parseSeconds is the inverse of appendSeconds.
func parseSeconds(s string) (int64, bool) {
	digits, minus := strings.CutPrefix(s, "-")
	whole, rest, point := strings.Cut(digits, ".")
	if len(whole) > 12 || len(rest) > 6 || whole == "" || point && rest == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(rest + "000000")[:6], 10, 63)
	if err != nil {
		return 0, false
	}
	if minus {
		return -int64(n), true
	}
	return int64(n), true
}

// maxSummary bounds a summary.json.
const maxSummary = 64 << 20

// ReadSummary reads the summary.json of an output folder.
func ReadSummary(dir string) (*Summary, error) {
	name := filepath.Join(dir, "summary.json")
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: is %s an output folder of comb sim run?", name, dir)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSummary+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxSummary {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxSummary)
	}
	var s Summary
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &s, nil
}

// readJobsOf calls do for each row of an output folder's jobs.csv.
func readJobsOf(dir string, do func(*Row) error) error {
	name := filepath.Join(dir, "jobs.csv")
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist: is %s an output folder of comb sim run?", name, dir)
	} else if err != nil {
		return err
	}
	defer f.Close()
	return ReadJobs(f, name, do)
}
