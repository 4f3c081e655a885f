package budget

import "testing"

// A bound inside another leaves the tighter one, and ends where it was set.
// What is kept beside a bound is there when the bound is reached, once, and in parts.
func TestMore(t *testing.T) {
	var m Meter
	if m.WithinReserve(1) != 0 || m.Over() {
		t.Error("there is a bound without Within")
	}
	outer := m.Within(40)
	m.Step(40)
	for i, want := range []int64{5, 5, 0} {
		if !m.Over() {
			t.Fatal("what is kept counts in the bound itself")
		}
		had := m.WithinReserve([]int64{2, 1, 1}[i])
		if got := m.Left(1000); got != want {
			t.Errorf("%d more after %d, want %d", got, m.Taken(), want)
		}
		m.Step(int(want))
		m.Restore(had)
	}
	m.Restore(outer)
}

func TestWithin(t *testing.T) {
	var m Meter
	m.Step(7)
	if m.Over() || m.Left(1000) != 1000 {
		t.Fatal("a meter without a bound is over")
	}
	outer := m.Within(10)
	inner := m.Within(4)
	if m.Left(1000) != 4 {
		t.Errorf("%d steps are left, want 4", m.Left(1000))
	}
	m.Step(5)
	if !m.Over() {
		t.Error("5 of 4 steps are not over")
	}
	m.Restore(inner)
	if m.Over() || m.Left(1000) != 5 {
		t.Errorf("over: %v, left: %d, want 5", m.Over(), m.Left(1000))
	}
	if wide := m.Within(100); m.Left(1000) != 5 {
		t.Errorf("%d steps are left in a wider bound, want 5", m.Left(1000))
	} else {
		m.Restore(wide)
	}
	m.Restore(outer)
	if m.Over() || m.Taken() != 12 {
		t.Errorf("over: %v after %d steps", m.Over(), m.Taken())
	}
}
