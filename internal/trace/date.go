package trace

import (
	"time"

	"github.com/combsched/comb/internal/sched"
)

// zeroDate counts time from the first date that a file has.
type zeroDate struct {
	known bool
	at    int64
}

// since reads a column with a date.
func (z *zeroDate) since(r *row, f field) sched.Time {
	b := r.raw(f)
	if r.err != nil {
		return 0
	}
	t, ok := date(b)
	if !ok {
		r.fail(f, "no date", quoted(b)+" is no date; want YYYY-MM-DD HH:MM:SS")
		return 0
	}
	return z.from(t)
}

// from counts seconds of the Unix epoch from the first ones given.
func (z *zeroDate) from(seconds int64) sched.Time {
	if !z.known {
		z.known, z.at = true, seconds
	}
	return sched.Time(seconds-z.at) * sched.Time(sched.Second)
}

// date reads YYYY-MM-DD HH:MM:SS, the T of ISO 8601 allowed, without a zone: the
// traces name none, and only differences count. It gives seconds.
func date(b []byte) (int64, bool) {
	if len(b) != 19 || b[4] != '-' || b[7] != '-' || (b[10] != ' ' && b[10] != 'T') || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	year, ok0 := digits(b[0:4])
	month, ok1 := digits(b[5:7])
	day, ok2 := digits(b[8:10])
	hour, ok3 := digits(b[11:13])
	minute, ok4 := digits(b[14:16])
	second, ok5 := digits(b[17:19])
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5) || year < 1990 || year > 2089 || hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Month() != time.Month(month) && second < 60 {
		return 0, false
	}
	return t.Unix(), true
}

func digits(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
