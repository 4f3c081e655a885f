package rest

import (
	"errors"
	"strconv"
	"strings"
)

// GPUs parses the number of GPUs of a quick job's tasks: a number, or "all".
type GPUs struct{ Of *QuickJob }

var errDevice = errors.New("exact GPUs cannot be asked for, since the scheduler chooses them, as close together as they are free: " +
	"ask for a number (--gpus 2), for a kind (--sku NAME), or for a cell that the cluster file pins for your VC (pinnedCellId in a job file)")

// Set implements pflag.Value.
func (g GPUs) Set(text string) error {
	if strings.HasPrefix(text, "device=") || strings.HasPrefix(text, `"device=`) {
		return errDevice
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("want a smaller number")
	}
	if g.Of.AllGPUs = text == "all"; !g.Of.AllGPUs && err != nil {
		return errors.New("want a number or all")
	}
	g.Of.GPUs = n
	return nil
}

// String implements pflag.Value. "" shows no default.
func (g GPUs) String() string {
	switch {
	case g.Of == nil || g.Of.GPUs == 0 && !g.Of.AllGPUs:
		return ""
	case g.Of.AllGPUs:
		return "all"
	}
	return strconv.FormatInt(g.Of.GPUs, 10)
}

// Type implements pflag.Value.
func (g GPUs) Type() string { return "number|all" }
