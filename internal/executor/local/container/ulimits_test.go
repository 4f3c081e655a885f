package container

import "testing"

func TestMostOfALimit(t *testing.T) {
	const limits = `Limit                     Soft Limit           Hard Limit           Units
Max stack size            8388608              unlimited            bytes
Max open files            1024                 20000                files
Max locked memory         8388608              8388608              bytes
`
	for name, want := range map[string]int64{"nofile": 20000, "memlock": 8388608, "stack": Unlimited} {
		if got := hardLimit(limits, name); got != want {
			t.Errorf("%s: %d, not %d", name, got, want)
		}
	}
	for status, want := range map[string]bool{
		"CapEff:\t000001ffffffffff\n": true, "CapEff:\t000001fffeffffff\n": false, "": false} {
		if got := mayExceed("Name:\tdockerd\n" + status); got != want {
			t.Errorf("%q: %v", status, got)
		}
	}
	for _, c := range []struct {
		value, most int64
		want        bool
	}{{Unlimited, Unlimited, false}, {5, Unlimited, false}, {Unlimited, 5, true}, {6, 5, true}, {5, 5, false}} {
		if got := Exceeds(c.value, c.most); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
