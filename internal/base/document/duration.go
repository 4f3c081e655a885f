package document

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// durationUnits are the units of a duration, in microseconds.
func durationUnits() map[string]float64 {
	return map[string]float64{"d": 24 * 3600e6, "h": 3600e6, "m": 60e6, "s": 1e6, "ms": 1e3, "us": 1}
}

// ParseDuration reads "90s", "2h30m", "1d12h" or a bare number of seconds as microseconds: whole
// and decimal numbers with the units d, h, m, s, ms and us, largest first. A value beyond 2^62
// microseconds becomes 2^62, so that the caller's own bound refuses it.
func ParseDuration(s string) (micros int64, ok bool) {
	if s == "" || len(s) > 40 || strings.ContainsAny(s, "xXpP_eEiInN") {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		return bounded(seconds * 1e6), true
	}
	rest, minus := strings.CutPrefix(s, "-")
	if rest == "" || minus && strings.Contains(rest, "d") {
		return 0, false
	}
	total := 0.0
	for first := true; rest != ""; first = false {
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		unit := rest[n:]
		if i := strings.IndexAny(unit, "0123456789."); i >= 0 {
			unit = unit[:i]
		}
		value, err := strconv.ParseFloat(rest[:n], 64)
		size, known := durationUnits()[unit]
		if err != nil || !known || unit == "d" && (!first || strings.Contains(rest[:n], ".")) {
			return 0, false
		}
		total += value * size
		rest = rest[n+len(unit):]
	}
	if minus {
		total = -total
	}
	return bounded(total), true
}

// Unitless says what to write instead of a bare number, which a person may mean in days as well
// as in seconds; nil for a text with a unit, and for 0.
func Unitless(s string) error {
	if !bare(s) {
		return nil
	}
	return fmt.Errorf("say of what: %[1]sd, %[1]sh, %[1]sm or %[1]ss", s)
}

func bare(s string) bool {
	n, err := strconv.ParseFloat(s, 64)
	return err == nil && n != 0 && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// FormatDuration writes microseconds as ParseDuration reads them, without empty
// parts: 1d12h, 5m, 1m30s, 250ms, 0s.
func FormatDuration(micros int64) string {
	if micros < 0 {
		return "-" + FormatDuration(-micros)
	}
	if micros < 1_000_000 && micros > 0 {
		if micros%1000 == 0 {
			return strconv.FormatInt(micros/1000, 10) + "ms"
		}
		return strconv.FormatInt(micros, 10) + "us"
	}
	out := ""
	for _, u := range []struct {
		name string
		size int64
	}{{"d", 24 * 3600e6}, {"h", 3600e6}, {"m", 60e6}} {
		if n := micros / u.size; n > 0 {
			out += strconv.FormatInt(n, 10) + u.name
		}
		micros %= u.size
	}
	if micros > 0 || out == "" {
		out += strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64) + "s"
	}
	return out
}

func bounded(micros float64) int64 {
	const most = 1 << 62
	return int64(math.Round(max(-most, min(micros, most))))
}
