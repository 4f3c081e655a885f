package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/base/document"
)

// durationFlag is a time as job files write it: 90s, 2h30m, 1d12h.
type durationFlag time.Duration

// maxWait is the largest value of a durationFlag.
const maxWait = 10 * 365 * 24 * time.Hour

// Set implements pflag.Value.
func (d *durationFlag) Set(text string) error {
	if err := document.Unitless(text); err != nil {
		return err
	}
	micros, ok := document.ParseDuration(text)
	if !ok || micros < 0 || micros > maxWait.Microseconds() {
		return errors.New("want a time such as 30s, 90m or 1d12h")
	}
	*d = durationFlag(time.Duration(micros) * time.Microsecond)
	return nil
}

// String implements pflag.Value; "" is no default worth showing.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return narrate.Short(time.Duration(*d))
}

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

// memoryFlag is an amount of memory in MiB, with a unit or without.
type memoryFlag int64

// Set implements pflag.Value.
func (m *memoryFlag) Set(text string) error {
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
	*m = memoryFlag(mib)
	return nil
}

// outside is why an amount is none that can be asked for.
type outside string

// Error implements error.
func (o outside) Error() string { return string(o) }

// outsideOf says of a number with a unit whether it is too small or too large; "" is neither.
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

// String implements pflag.Value; "" is no default worth showing.
func (m *memoryFlag) String() string {
	if *m == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*m), 10) + "Mi"
}

// Type implements pflag.Value.
func (m *memoryFlag) Type() string { return "amount" }

// budgetFlag is an amount of a disk in MiB, with a unit: a bare number may be meant in any.
type budgetFlag struct{ memoryFlag }

// Set implements pflag.Value.
func (b *budgetFlag) Set(text string) error {
	if err := document.UnitlessSize(text); err != nil {
		return err
	}
	if b.memoryFlag.Set(text) != nil {
		return errors.New("want an amount of a disk such as 500Gi or 2Ti")
	}
	return nil
}

func (b *budgetFlag) bytes() int64 { return int64(b.memoryFlag) << 20 }

// diskFlag is what a container may write. Where it is not given, a pod may ask for more.
type diskFlag struct {
	budgetFlag
	given bool
}

// Set implements pflag.Value.
func (f *diskFlag) Set(text string) error {
	f.given = true
	return f.budgetFlag.Set(text)
}

// most is what a pod may ask for; 0 is any amount.
func (f *diskFlag) most() int64 {
	if !f.given {
		return 0
	}
	return int64(f.memoryFlag)
}
