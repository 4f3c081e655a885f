package trace

import (
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// zeroDate counts time from the first date in a file.
type zeroDate struct {
	known bool
	at    int64
	// read says that a date was read, and offset whether it had one to UTC.
	read, offset bool
}

// since reads a column with a date.
func (z *zeroDate) since(r *row, f field) model.Time {
	b := r.raw(f)
	if r.err != nil {
		return 0
	}
	t, wrong := z.date(b)
	if wrong != "" {
		r.fail(f, "no date", wrong)
		return 0
	}
	return z.from(t)
}

// date reads a date in seconds, or says what is wrong with it. Within one file all dates must
// have an offset to UTC, or none, since else their differences mean nothing.
func (z *zeroDate) date(b []byte) (int64, string) {
	t, offset, ok := date(b)
	switch {
	case !ok:
		return 0, quoted(b) + " is no date; want YYYY-MM-DD HH:MM:SS, perhaps with an offset such as +08:00 or Z"
	case z.read && z.offset != offset:
		return 0, quoted(b) + " is not like the first date of the file: give all dates an offset to UTC, or none"
	}
	z.read, z.offset = true, offset
	return t, ""
}

// from counts seconds of the Unix epoch from those of the first call.
func (z *zeroDate) from(seconds int64) model.Time {
	if !z.known {
		z.known, z.at = true, seconds
	}
	return model.Time(seconds-z.at) * model.Time(model.Second)
}

// date reads YYYY-MM-DD HH:MM:SS, with the T of ISO 8601 allowed, and an optional offset to
// UTC: Z, +HH, +HHMM or +HH:MM. It returns seconds. Without an offset only their differences
// mean something.
func date(b []byte) (t int64, offset, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || (b[10] != ' ' && b[10] != 'T') || b[13] != ':' || b[16] != ':' {
		return 0, false, false
	}
	ahead := int64(0)
	if len(b) > 19 {
		if ahead, offset = zone(b[19:]); !offset {
			return 0, false, false
		}
	}
	year, ok0 := digits(b[0:4])
	month, ok1 := digits(b[5:7])
	day, ok2 := digits(b[8:10])
	hour, ok3 := digits(b[11:13])
	minute, ok4 := digits(b[14:16])
	second, ok5 := digits(b[17:19])
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5) || year < 1990 || year > 2089 || hour > 23 || minute > 59 || second > 60 {
		return 0, false, false
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if at.Month() != time.Month(month) && second < 60 {
		return 0, false, false
	}
	return at.Unix() - ahead, offset, true
}

// zone reads an offset to UTC, in seconds.
func zone(b []byte) (int64, bool) {
	if string(b) == "Z" {
		return 0, true
	}
	sign := int64(1)
	if b[0] == '-' {
		sign = -1
	} else if b[0] != '+' {
		return 0, false
	}
	b = b[1:]
	if len(b) == 5 && b[2] == ':' {
		b = []byte{b[0], b[1], b[3], b[4]}
	}
	if len(b) == 2 {
		b = append(b[:2:2], '0', '0')
	}
	n, ok := digits(b)
	if len(b) != 4 || !ok || n/100 > 14 || n%100 > 59 {
		return 0, false
	}
	return sign * int64(n/100*3600+n%100*60), true
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
