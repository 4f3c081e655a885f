// Package machine knows this machine's devices and storages: its GPUs and their use, whether the
// devices of tasks are there, and where storages are. It relies only on what the machine shows,
// so that no job can put devices out of use. It must not start or stop anything.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Leaf is a leaf of a node, with its SKU.
type Leaf struct {
	model.LeafHealth
	SKU cell.SKU
}

// GuardOptions say what is looked at.
type GuardOptions struct {
	Dir     string        // where the known GPUs are recorded
	Boot    string        // the boot id of the machine
	Dev     string        // folder of device files
	Program string        // that lists NVIDIA's GPUs
	Every   time.Duration // between two looks
	// Leaves are those of the present configuration; nil: devices are checked only at starts.
	Leaves  func() []Leaf
	HasNode func(cell.NodeName) bool
	Tell    func(model.LeafHealth)
	Log     *slog.Logger
}

// Guard checks the devices of a machine.
type Guard struct {
	o      GuardOptions
	driver Driver
	again  chan struct{} // a start found something missing: look now

	looking chan struct{}  // held while the fields that follow are used
	at      time.Time      // of the last look; zero: none
	cards   map[int32]card // replaced by each look
	err     error
	known   identities

	anew atomic.Bool // everything is to be told once more
	// For the goroutine of Run alone. Keys have no reason.
	failed map[model.LeafHealth]int    // looks in a row that found a leaf's device missing
	told   map[model.LeafHealth]string // why a leaf was told to be bad; "": it was told to be good
}

// card is a GPU, with the identity that its index has had since the machine was booted.
type card struct {
	Card
	was string
}

// identities are the GPUs by index since the machine was booted: when a GPU is lost, the driver
// may number the others anew.
type identities struct {
	Boot string           `json:"boot"`
	UUID map[int32]string `json:"uuid"`
}

const (
	gpusFile = "gpus"
	// badAfter is how many bad looks in a row make a leaf bad: a single one may be a passing
	// trouble.
	badAfter  = 2
	lookAgain = time.Second // after the first look that finds something missing
)

// NewGuard makes a guard, which has looked at nothing yet.
func NewGuard(o GuardOptions) *Guard {
	g := &Guard{o: o, again: make(chan struct{}, 1), looking: make(chan struct{}, 1),
		failed: map[model.LeafHealth]int{}, told: map[model.LeafHealth]string{},
		driver: Driver{Program: o.Program, Dev: o.Dev, Proc: "/proc/driver/nvidia"}}
	if err := safefile.Read(o.Dir, gpusFile, &g.known); err != nil || g.known.Boot != o.Boot || g.known.UUID == nil {
		g.known = identities{Boot: o.Boot, UUID: map[int32]string{}}
	}
	return g
}

// HasRealDevices reports whether leaves of a SKU are NVIDIA's GPUs according to the
// configuration, whether or not any are found.
func HasRealDevices(sku *cell.SKU) bool {
	return sku.Device == cell.NVIDIA && sku.GPU > 0 && !sku.Pretended
}

// Run looks now and then until ctx is done.
func (g *Guard) Run(ctx context.Context) {
	for {
		pause := g.o.Every
		if g.look(ctx) {
			pause = min(pause, lookAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-g.again:
		case <-time.After(pause):
		}
	}
}

// look tells which leaves are bad; soon says that a leaf failed its first look.
func (g *Guard) look(ctx context.Context) (soon bool) {
	if g.anew.Swap(false) {
		clear(g.told)
	}
	leaves := g.o.Leaves()
	g.forget(ctx)
	for i := range leaves {
		l := &leaves[i]
		if l.SKU.Device == cell.CPU || !g.o.HasNode(l.Node) {
			continue
		}
		place := cell.Task{Node: l.Node, SKU: l.SKU.Name, Devices: []int32{l.Device}}
		if l.SKU.Part != "" {
			place.Parts = []int32{l.Part}
		}
		why := g.Missing(ctx, l.SKU, place)
		key := l.LeafHealth
		if why == "" {
			delete(g.failed, key)
		} else if g.failed[key]++; g.failed[key] < badAfter {
			soon = true
			continue
		}
		if told, ever := g.told[key]; ever && told == why || ctx.Err() != nil {
			continue
		}
		g.told[key] = why
		if why != "" {
			g.o.Log.Warn("a device is out of use",
				"node", key.Node, "sku", key.SKU, "device", key.Device, "reason", why)
		}
		fact := key
		fact.Good, fact.Reason = why == "", why
		g.o.Tell(fact)
	}
	return soon
}

// Renew looks at all devices again, as a new configuration names them, and tells everything
// again.
func (g *Guard) Renew() {
	g.anew.Store(true)
	g.Soon()
}

// Soon makes Run look now.
func (g *Guard) Soon() {
	select {
	case g.again <- struct{}{}:
	default: // a look is due already
	}
}

// enter locks looking; leave unlocks it. The end of ctx is its only error.
func (g *Guard) enter(ctx context.Context) (leave func(), err error) {
	select {
	case g.looking <- struct{}{}:
		return func() { <-g.looking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget makes the next look ask the driver anew.
func (g *Guard) forget(ctx context.Context) {
	if leave, err := g.enter(ctx); err == nil {
		g.at = time.Time{}
		leave()
	}
}

// Missing says which device of a task is missing; "": none.
func (g *Guard) Missing(ctx context.Context, sku cell.SKU, place cell.Task) string {
	for _, file := range DeviceFiles(sku, place) {
		if err := g.file(file); err != nil {
			return fmt.Sprintf("device file %s of SKU %s: %v", file, sku.Name, err)
		}
	}
	if !HasRealDevices(&sku) {
		return ""
	}
	cards, err := g.ask(ctx)
	if err != nil {
		return err.Error()
	}
	for _, d := range PlacedDevices(sku, place) {
		c, listed := cards[d]
		switch {
		case !listed:
			return fmt.Sprintf("GPU %d is not there: the driver lists %s", d, amountOf(len(cards)))
		case g.file("/dev/"+c.File) != nil:
			return fmt.Sprintf("GPU %d is not there: /dev/%s is missing", d, c.File)
		case c.was != c.UUID:
			return fmt.Sprintf("GPU %d is another one now, %s in place of %s: "+
				"reboot the machine, so that its GPUs are counted anew", d, c.UUID, c.was)
		}
	}
	return ""
}

func amountOf(gpus int) string {
	if gpus == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// file says that a device file is missing; nil: it is there.
func (g *Guard) file(path string) error {
	if below, ok := strings.CutPrefix(path, "/dev/"); ok {
		path = filepath.Join(g.o.Dev, below)
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no such file or directory") // not to name the folder that stands for /dev
	}
	if err != nil {
		return errors.Unwrap(err)
	}
	return nil
}

// ask is what the driver lists, at most one look old. The driver's device file is checked each
// time.
func (g *Guard) ask(ctx context.Context) (map[int32]card, error) {
	if err := g.driver.CheckFile(); err != nil {
		return nil, err
	}
	leave, err := g.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !g.at.IsZero() && time.Since(g.at) < g.o.Every {
		return g.cards, g.err
	}
	list, err := g.driver.Cards(ctx)
	if err != nil && ctx.Err() != nil { // a stop ended the program: that says nothing to others
		return nil, ctx.Err()
	}
	g.at, g.cards, g.err = time.Now(), map[int32]card{}, err
	news := false
	for i, c := range list {
		if _, seen := g.known.UUID[i]; !seen {
			g.known.UUID[i], news = c.UUID, true
		}
		g.cards[i] = card{c, g.known.UUID[i]}
	}
	if news {
		if err := safefile.Write(g.o.Dir, gpusFile, &g.known); err != nil {
			g.o.Log.Warn("note which GPUs there are", "error", err)
		}
	}
	return g.cards, g.err
}

// DeviceFiles returns the device files of leaves. In a SKU's file name, "%d" is each device's
// index, and "{128}" that index counted from 128.
func DeviceFiles(sku cell.SKU, place cell.Task) []string {
	var files []string
	for _, pattern := range sku.Files {
		head, tail, first, each := cell.FilePattern(pattern)
		if !each {
			files = append(files, pattern)
			continue
		}
		for _, d := range PlacedDevices(sku, place) {
			files = append(files, fmt.Sprintf("%s%d%s", head, first+int64(d), tail))
		}
	}
	return files
}

// PlacedDevices returns the indices of the devices of leaves, also of leaves that are parts of
// devices, each once. A leaf without a GPU, such as a CPU slot, is one device with the leaf's own
// index.
func PlacedDevices(sku cell.SKU, place cell.Task) []int32 {
	each := int32(max(sku.GPU, 1))
	var list []int32
	for _, l := range place.Devices {
		if sku.Part != "" {
			if !slices.Contains(list, l) {
				list = append(list, l)
			}
			continue
		}
		for i := range each {
			list = append(list, l*each+i)
		}
	}
	return list
}
