package cli

import "testing"

// A pod may ask for more disk than the usual limit, but not for more than one that was given.
func TestDiskFlag(t *testing.T) {
	f := DiskFlag{BudgetFlag: BudgetFlag{100}}
	if f.Most() != 0 || f.String() != "100Mi" {
		t.Errorf("by itself a pod may ask for %d MiB, and has %s", f.Most(), f.String())
	}
	if err := f.Set("5"); err == nil || err.Error() != "say of what: 5Ti, 5Gi or 5Mi" {
		t.Errorf("5 without a unit: %v", err)
	}
	for text, want := range map[string]int64{"100Mi": 100, "2Gi": 2048, "0": 0} {
		if err := f.Set(text); err != nil || f.Most() != want || int64(f.MemoryFlag) != want {
			t.Errorf("with %s a pod may ask for %d MiB, and has %s: %v", text, f.Most(), f.String(), err)
		}
	}
}
