package document

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// memoryUnits are the suffixes of an amount of memory, in bytes.
func memoryUnits() map[string]float64 {
	return map[string]float64{
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
		"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	}
}

// UnitlessSize says what to write instead of a bare number, as Unitless does for a time.
func UnitlessSize(s string) error {
	if !bare(s) {
		return nil
	}
	return fmt.Errorf("say of what: %[1]sTi, %[1]sGi or %[1]sMi", s)
}

// ParseMemory reads an amount of memory with its unit, such as 54Gi or 10240Mi, as
// whole MiB; 0 needs no unit. It refuses what is negative, above 2^60 bytes, or below
// 1 MiB but not 0.
func ParseMemory(s string) (mib int64, ok bool) {
	digits := strings.TrimRight(s, "KMGTik")
	unit, known := memoryUnits()[s[len(digits):]]
	v, err := strconv.ParseFloat(digits, 64)
	if err == nil && v == 0 {
		return 0, true
	}
	if !known || err != nil || math.IsNaN(v) || v*unit < 1<<20 || v*unit > 1<<60 {
		return 0, false
	}
	return int64(v * unit / (1 << 20)), true
}
