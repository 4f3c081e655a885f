package document

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads "90s", "2h30m", "1d12h" or a bare number of seconds as
// microseconds: whole and decimal numbers with the units d, h, m, s, ms and us.
// It refuses what it cannot represent.
func ParseDuration(s string) (micros int64, ok bool) {
	if s == "" || len(s) > 40 || strings.ContainsAny(s, "xXpP_eEiInN") {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		v := math.Round(seconds * 1e6)
		if math.Abs(v) >= 1<<62 {
			return 0, false
		}
		return int64(v), true
	}
	days := int64(0)
	if i := strings.IndexByte(s, 'd'); i >= 0 {
		n, err := strconv.ParseUint(s[:i], 10, 16)
		if err != nil {
			return 0, false
		}
		days, s = int64(n), s[i+1:]
		if s == "" {
			s = "0s"
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || (days > 0 && d < 0) {
		return 0, false
	}
	return days*24*int64(time.Hour/time.Microsecond) + d.Microseconds(), true
}
