package trace

import (
	"regexp"
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/perf"
)

// speedsMark is the key with which a table of speeds in the comb format begins. speedsVersion
// is the version that is read.
const (
	speedsMark    = "comb_speeds"
	speedsVersion = 1
)

var speedsBegin = regexp.MustCompile(`^\s*\{\s*"` + speedsMark + `"`)

// ReadSpeeds reads a table of speeds, gzip or plain. It is either in the comb format, which
// begins with the key comb_speeds and may hold a table in Gavel's format, or in Gavel's
// format alone. What the file does not have is nil. docs/simulate.md has the keys.
func ReadSpeeds(path string) (*perf.Throughputs, *perf.Factors, error) {
	c, err := openValue(path)
	if err != nil {
		return nil, nil, err
	}
	if !speedsBegin.Match(c.b) {
		t, err := throughputs(c)
		return t, nil, err
	}
	return speeds(c)
}

// speedKeys are the keys of our table.
func speedKeys() []string {
	return []string{speedsMark, "types", "localities", "host", "nic", "beside", "gpus", "costs", "throughputs"}
}

func speeds(c *cursor) (*perf.Throughputs, *perf.Factors, error) {
	f := &perf.Factors{}
	var t *perf.Throughputs
	c.object(func(key []byte) {
		switch string(key) {
		case speedsMark:
			c.look()
			at := c.at
			if v := c.whole(span{0, maxCount}); v != speedsVersion {
				c.fail(at, "unknown version", "this is version %d of tables of speeds; this program reads version %d", v, speedsVersion)
			}
		case "types":
			c.pairs(func(gpu, model string) {
				f.Types = append(f.Types, perf.Factor{Model: model, Key: gpu, Speed: c.speed()})
			})
		case "localities":
			c.pairs(func(model, l string) {
				if _, ok := perf.LocalityNamed(l); !ok {
					c.fail(c.at, "unknown key", "there is no locality %q; there are: %s", l, perf.LocalityNames())
				}
				f.Localities = append(f.Localities, perf.Factor{Model: model, Key: l, Speed: c.speed()})
			})
		case "host":
			c.object(func(key []byte) { f.Hosts = append(f.Hosts, c.factor(key)) })
		case "nic":
			c.object(func(key []byte) { f.NICs = append(f.NICs, c.factor(key)) })
		case "beside":
			c.pairs(func(model, other string) {
				f.Beside = append(f.Beside, perf.Factor{Model: model, Key: other, Speed: c.speed()})
			})
		case "gpus":
			c.pairs(func(model, n string) {
				f.GPUs = append(f.GPUs, perf.Scale{Model: model, GPUs: c.countKey([]byte(n)), Rate: c.speed()})
			})
		case "costs":
			c.costs(&f.Costs)
		case "throughputs":
			t = c.table()
		default:
			c.fail(c.at, "unknown key", "there is no such key%s", document.DidYouMean(string(key), speedKeys()))
		}
	})
	c.end()
	if c.err != nil {
		return nil, nil, c.err
	}
	f.Sort()
	return t, f, nil
}

// pairs reads an object of objects.
func (c *cursor) pairs(each func(a, b string)) {
	c.object(func(key []byte) {
		a := c.names.of(key)
		c.object(func(key []byte) { each(a, c.names.of(key)) })
	})
}

// factor reads the relative speed of a model.
func (c *cursor) factor(model []byte) perf.Factor {
	return perf.Factor{Model: c.names.of(model), Speed: c.speed()}
}

// speed reads a speed relative to full speed, above 0.
func (c *cursor) speed() perf.Speed {
	c.look()
	at := c.at
	v := c.number(6, span{0, 1000 * int64(perf.FullSpeed)})
	if v == 0 {
		c.fail(at, tooLarge, "a speed of 0 would never end; want a number above 0, such as 0.5")
	}
	return perf.Speed(v)
}

// costs reads what changes of a gang cost: texts such as "30" and "log2:30".
func (c *cursor) costs(to *perf.Costs) {
	known := []string{"restart", "migrate", "suspend"}
	c.object(func(key []byte) {
		i := slices.Index(known, string(key))
		if i < 0 {
			c.fail(c.at, "unknown key", "there is no such key%s", document.DidYouMean(string(key), known))
			return
		}
		c.look()
		at := c.at
		cost, err := perf.ParseCost(string(c.str()))
		if err != nil {
			c.fail(at, "bad table", "%s", err)
		}
		*[]*perf.Cost{&to.Restart, &to.Migrate, &to.Suspend}[i] = cost
	})
}
