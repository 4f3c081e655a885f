package steps

import "testing"

// A bound inside another leaves the tighter one, and ends where it was set.
// What is kept beside a bound is there when the bound is reached, once, and in parts.
func TestMore(t *testing.T) {
	var m Meter
	if m.More(1) != 0 || m.Over() {
		t.Error("there is a bound without Within")
	}
	outer := m.Within(40)
	m.Step(40)
	for i, want := range []int64{5, 5, 0} {
		if !m.Over() {
			t.Fatal("what is kept counts in the bound itself")
		}
		had := m.More([]int64{2, 1, 1}[i])
		if got := m.Left(1000); got != want {
			t.Errorf("%d more after %d, want %d", got, m.Taken(), want)
		}
		m.Step(int(want))
		m.Until(had)
	}
	m.Until(outer)
}

// What all are given together goes first to those that come first; then each has the least.
func TestShare(t *testing.T) {
	var m Meter
	m.Step(3)
	m.Share(100, 5)
	for i, want := range []int64{60, 40, 5, 5} {
		had := m.Within(60)
		if got := m.Left(1000); got != want {
			t.Errorf("the %d. has %d steps, want %d", i+1, got, want)
		}
		m.Step(int(want))
		m.Until(had)
	}
	if m.Share(0, 0); !m.Spent() {
		t.Error("110 of 100 steps are not all")
	}
	m.Share(100, 5)
	m.Step(99)
	if m.Share(0, 0); m.Spent() || m.Left(1000) != 1000 {
		t.Error("99 of 100 steps are all, or the bound stays")
	}
	if had := m.Within(60); m.Left(1000) != 60 {
		t.Error("the bound of a share that has ended holds")
	} else {
		m.Until(had)
	}
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
	m.Until(inner)
	if m.Over() || m.Left(1000) != 5 {
		t.Errorf("over: %v, left: %d, want 5", m.Over(), m.Left(1000))
	}
	if wide := m.Within(100); m.Left(1000) != 5 {
		t.Errorf("%d steps are left in a wider bound, want 5", m.Left(1000))
	} else {
		m.Until(wide)
	}
	m.Until(outer)
	if m.Over() || m.Taken() != 12 {
		t.Errorf("over: %v after %d steps", m.Over(), m.Taken())
	}
}
