package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/base/document"
)

// DurationFlag is a time in the form of job files: 90s, 2h30m, 1d12h.
type DurationFlag time.Duration

// maxWait is the largest value of a DurationFlag.
const maxWait = 10 * 365 * 24 * time.Hour

// Set implements pflag.Value.
func (d *DurationFlag) Set(text string) error {
	if err := document.Unitless(text); err != nil {
		return err
	}
	micros, ok := document.ParseDuration(text)
	if !ok || micros < 0 || micros > maxWait.Microseconds() {
		return errors.New("want a time such as 30s, 90m or 1d12h")
	}
	*d = DurationFlag(time.Duration(micros) * time.Microsecond)
	return nil
}

// String implements pflag.Value. "" shows no default.
func (d *DurationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return narrate.Short(time.Duration(*d))
}

// Type implements pflag.Value.
func (d *DurationFlag) Type() string { return "duration" }

// MemoryFlag is an amount of memory in MiB, with a unit or without.
type MemoryFlag int64

// Set implements pflag.Value.
func (m *MemoryFlag) Set(text string) error {
	mib, err := strconv.ParseInt(text, 10, 64)
	ok := err == nil && mib >= 0 && mib <= 1<<40
	if err != nil {
		mib, ok = document.ParseMemory(text)
	}
	if why := outsideOf(text); !ok && why != "" {
		return why
	}
	if !ok {
		return errors.New("want an amount of memory such as 16Gi or 500M, or a number of MiB")
	}
	*m = MemoryFlag(mib)
	return nil
}

// outside is why an amount is out of range.
type outside string

// Error implements error.
func (o outside) Error() string { return string(o) }

// outsideOf says whether a number with a unit is too small or too large; "" is neither.
func outsideOf(text string) outside {
	digits := strings.TrimRight(text, "KMGTPEikB")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v > 0) {
		return ""
	}
	of := map[string]float64{"": 1 << 20, "k": 1e3, "K": 1e3, "Ki": 1 << 10, "M": 1e6, "Mi": 1 << 20,
		"G": 1e9, "Gi": 1 << 30,
		"T": 1e12, "Ti": 1 << 40, "P": 1e15, "Pi": 1 << 50, "E": 1e18, "Ei": 1 << 60}[text[len(digits):]]
	switch {
	case of == 0:
		return ""
	case v*of < 1<<20:
		return "too small: the least is 1Mi"
	}
	return "too large: the largest unit is Ti, and the most is 1048576Ti"
}

// String implements pflag.Value. "" shows no default.
func (m *MemoryFlag) String() string {
	if *m == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*m), 10) + "Mi"
}

// Type implements pflag.Value.
func (m *MemoryFlag) Type() string { return "amount" }

// BudgetFlag is an amount of disk in MiB, which needs a unit: a bare number could be meant in
// any unit.
type BudgetFlag struct{ MemoryFlag }

// Set implements pflag.Value.
func (b *BudgetFlag) Set(text string) error {
	if err := document.UnitlessSize(text); err != nil {
		return err
	}
	if b.MemoryFlag.Set(text) != nil {
		return errors.New("want an amount of a disk such as 500Gi or 2Ti")
	}
	return nil
}

// Bytes is the amount in bytes.
func (b *BudgetFlag) Bytes() int64 { return int64(b.MemoryFlag) << 20 }

// DiskFlag is how much a container may write. If it is not given, a pod may ask for more.
type DiskFlag struct {
	BudgetFlag
	given bool
}

// Set implements pflag.Value.
func (f *DiskFlag) Set(text string) error {
	f.given = true
	return f.BudgetFlag.Set(text)
}

// Most is how much a pod may ask for; 0 is any amount.
func (f *DiskFlag) Most() int64 {
	if !f.given {
		return 0
	}
	return int64(f.MemoryFlag)
}

// LimitsFlag reads the limits of each process, by name.
type LimitsFlag struct{ Of *map[string]string }

// String implements pflag.Value.
func (l LimitsFlag) String() string { return "" }

// Type implements pflag.Value.
func (l LimitsFlag) Type() string { return "NAME=LIMIT" }

// Set reads one limit. The server checks its value.
func (l LimitsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok || value == "" || !slices.Contains([]string{"nofile", "stack", "memlock"}, name):
		return errors.New("want nofile=NUMBER, stack=SIZE or memlock=SIZE, such as nofile=65536")
	case strings.Contains(value, ":"):
		hard := value[strings.LastIndexByte(value, ':')+1:]
		return fmt.Errorf("one number is the soft and the hard limit, such as %s=%s", name, hard)
	case value == "-1":
		return fmt.Errorf("without a limit it is %s=unlimited", name)
	}
	if *l.Of == nil {
		*l.Of = map[string]string{}
	}
	(*l.Of)[name] = value
	return nil
}
