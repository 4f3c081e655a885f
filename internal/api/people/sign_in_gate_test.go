package people

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
)

// cheap is a cost at which a test can look at thousands of passwords.
var cheap = Cost{KiB: 8, Passes: 1}

// besieged runs a test with time of its own: who waits takes none.
func besieged(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Directory.now = func() model.Time { return model.Time(time.Now().UnixMicro()) }
		w.SetHashCost(cheap)
		w.make()
		test(w)
	})
}

func from(address string) From { return From{Address: address} }

// guess sends wrong passwords for a name, so many a second, until stop is called; where says from
// which place each is.
func (w *world) guess(name string, each time.Duration, where func(i int) From) (stop func() (read, refused int)) {
	client, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	read, refused := 0, 0
	all.Go(func() {
		tick := time.NewTicker(each)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-client.Done():
				return
			}
			all.Go(func() {
				_, _, err := w.SignIn(client, name, "a wrong one", where(i), 0)
				mu.Lock()
				defer mu.Unlock()
				var slow *Slow
				switch {
				case errors.Is(err, ErrSignIn):
					read++
				case errors.As(err, &slow):
					refused++
				case !errors.Is(err, context.Canceled):
					w.Errorf("guess %d: %v", i, err)
				}
			})
		}
	})
	return func() (int, int) {
		end()
		all.Wait()
		return read, refused
	}
}

// TestNobodyIsLockedOut: 200 sign-ins with the right password, one a second, under 20 guesses a
// second. None is refused, and the guesses are bounded: a hundred, then one a second. Sign-ins from
// new places take longer, so there are more guesses beside them.
func TestNobodyIsLockedOut(t *testing.T) {
	elsewhere := func(int) From { return from("203.0.113.6") }
	for name, c := range map[string]struct {
		guesses func(i int) From
		signIn  func(i int) From
		most    int // guesses that may be looked at
	}{
		"guesses from one other address":          {elsewhere, func(int) From { return from("10.0.0.1") }, 40},
		"each sign-in from an address of its own": {elsewhere, func(i int) From { return from(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String()) }, 40},
		"guesses from one network of IPv6": {func(i int) From { return from(fmt.Sprintf("2001:db8::%x", i+1)) },
			func(int) From { return from("2001:db8:0:1::1") }, 40},
		"guesses from an address each": {func(i int) From { return from(fmt.Sprintf("203.0.%d.%d", i/250, i%250)) },
			func(int) From { return from("10.0.0.1") }, 400},
		"guesses from 20 addresses, each sign-in from a new one": {
			func(i int) From { return from(fmt.Sprintf("198.51.%d.7", i%20)) },
			func(i int) From { return from(fmt.Sprintf("10.%d.1.1", i)) }, 800},
		"guesses from 20 neighbours, each sign-in from a new address": {
			func(i int) From { return from(fmt.Sprintf("198.51.100.%d", i%20)) },
			func(i int) From { return from(fmt.Sprintf("10.%d.1.1", i)) }, 800},
		"guesses from a company's networks of IPv6, each sign-in from a new one": {
			func(i int) From { return from(fmt.Sprintf("2001:db8:0:%x::1", i%256)) },
			func(i int) From { return from(fmt.Sprintf("2001:db8:1:%x::1", i)) }, 800},
	} {
		t.Run(name, func(t *testing.T) {
			besieged(t, func(w *world) { w.signsInUnder(c.guesses, c.signIn, c.most) })
		})
	}
}

// signsInUnder signs in 200 times while there are guesses, of which so many may be looked at.
func (w *world) signsInUnder(guesses, signIn func(i int) From, most int) {
	stop := w.guess("alice", 50*time.Millisecond, guesses)
	for i := range 200 {
		if _, _, err := w.SignIn(ctx, "alice", password, signIn(i), 0); err != nil {
			w.Errorf("sign-in %d: %v", i, err)
		}
		time.Sleep(time.Second) // played time
	}
	if read, refused := stop(); read > most || read < 5 || read+refused < 3000 {
		w.Errorf("%d guesses were looked at, at most %d may be, and %d refused", read, most, refused)
	}
}

// TestTicketsPass: behind an address from which others guess, for the same name and for all, a
// ticket's holder signs in at once; without it the sign-in waits in line or is told for how long.
// The ticket ends with the password.
func TestTicketsPass(t *testing.T) {
	besieged(t, func(w *world) {
		w.must(w.CreateUsers(ctx, "admin", []NewUser{{User: access.User{Name: "carol"}, Password: password}}))
		kept := w.KeepTicket(w.Ticket("carol"), "alice")
		stop := w.guess("alice", 50*time.Millisecond, func(int) From { return from("10.0.0.1") })
		time.Sleep(time.Minute) // played time
		for i := range 200 {
			begun := time.Now()
			if _, _, err := w.SignIn(ctx, "alice", password, From{"10.0.0.1", kept}, 0); err != nil || !time.Now().Equal(begun) {
				t.Errorf("sign-in %d with a ticket: %v after %v", i, err, time.Since(begun))
			}
			time.Sleep(time.Second) // played time
		}
		var slow *Slow
		for name, ticket := range map[string]string{"another user's": w.Ticket("carol"), "a changed one": kept[:len(kept)-1], "none": ""} {
			if _, _, err := w.SignIn(ctx, "alice", password, From{"10.0.0.1", ticket}, 0); !errors.As(err, &slow) || slow.For <= 0 || slow.For > patience {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := w.SignIn(ctx, "carol", password, From{"10.0.0.1", kept}, 0); err != nil {
			t.Errorf("the other user of the browser: %v", err)
		}
		_, err := w.UpdateUser(ctx, "admin", "alice", UserChange{Password: ptr("another good password")})
		w.must(err)
		if _, _, err := w.SignIn(ctx, "alice", "another good password", From{"10.0.0.1", kept}, 0); !errors.As(err, &slow) {
			t.Errorf("with the ticket of the password before: %v", err)
		}
		stop()
		for range 3 * MaxTickets {
			kept = w.KeepTicket(kept, "alice")
		}
		u, err := w.User("carol")
		w.must(err)
		if _, ok := w.holder(&u, kept); !ok || len(kept) > 512 {
			t.Errorf("one user's sign-ins push out another's ticket: %q", kept)
		}
	})
}

// TestTicketsTakeOneTurn: a user with 600 tickets and a right sign-in for each has the turn of one
// user. Other users, a password that is looked at once more and new passwords come in turn.
func TestTicketsTakeOneTurn(t *testing.T) {
	besieged(t, func(w *world) {
		mallory := NewUser{User: access.User{Name: "mallory"}, Password: password}
		w.must(w.CreateUsers(ctx, "admin", []NewUser{mallory}))
		leave, err := w.gate.hosts.Wait(ctx, "first")
		w.must(err)
		var order []string
		w.gate.hosts.OnTurn = func(by string) { order = append(order, by) }
		var all sync.WaitGroup
		enter := func(try func() error) {
			all.Go(func() {
				if err := try(); err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for i := range 600 {
			from := From{fmt.Sprintf("2001:db8::%x:0:0:0:1", i), w.Ticket("mallory")}
			enter(func() error { _, _, err := w.SignIn(ctx, "mallory", password, from, 0); return err })
		}
		busy := 0
		others := func(try func() error) {
			enter(func() error {
				err := try()
				if err != nil {
					busy++
				}
				return err
			})
		}
		alice := From{"10.0.0.1", w.Ticket("alice")}
		others(func() error { _, _, err := w.SignIn(ctx, "alice", password, alice, 0); return err })
		others(func() error { return w.Confirm(ctx, "alice", password) })
		others(func() error {
			return w.CreateUsers(ctx, "admin", []NewUser{{User: access.User{Name: "dave"}, Password: password}})
		})
		leave()
		all.Wait()
		if busy > 0 || len(order) != 3+hashLine || fmt.Sprint(order[:4]) != "[mallory alice admin mallory]" {
			t.Errorf("%d of others were refused; %d turns: %v", busy, len(order), order)
		}
	})
}

// TestTicketsAreBounded: who holds a ticket guesses no faster than others.
func TestTicketsAreBounded(t *testing.T) {
	besieged(t, func(w *world) {
		ticket := w.Ticket("alice")
		stop := w.guess("alice", 50*time.Millisecond, func(i int) From { return From{fmt.Sprintf("203.0.113.%d", i%250), ticket} })
		time.Sleep(200 * time.Second) // played time
		if read, _ := stop(); read < maxFails || read > 40 {
			t.Errorf("%d guesses were looked at", read)
		}
		if _, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.1"), 0); err != nil {
			t.Error(err)
		}
		time.Sleep(TicketLife) // played time
		if _, ok := w.holder(&access.User{Name: "alice"}, ticket); ok {
			t.Error("an old ticket holds")
		}
	})
}

// TestGuessesWait: the sixth wrong password of a name from one place waits a second, the next two,
// and so on; a right one begins anew.
func TestGuessesWait(t *testing.T) {
	besieged(t, func(w *world) {
		var waits []time.Duration
		for range maxFails + 6 {
			begun := time.Now()
			if _, _, err := w.SignIn(ctx, "alice", "a wrong one", from("10.0.0.1"), 0); !errors.Is(err, ErrSignIn) {
				t.Fatal(err)
			}
			waits = append(waits, time.Since(begun))
		}
		if got := fmt.Sprint(waits); got != "[0s 0s 0s 0s 0s 1s 2s 4s 8s 8s 8s]" {
			t.Errorf("they waited %s", got)
		}
		begun := time.Now()
		_, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.1"), 0)
		if w.must(err); time.Since(begun) != longestPause {
			t.Errorf("the right one waited %v", time.Since(begun))
		}
		begun = time.Now()
		for range maxFails {
			_, _, _ = w.SignIn(ctx, "alice", "a wrong one", from("10.0.0.1"), 0)
		}
		if time.Since(begun) != 0 {
			t.Errorf("after the right one five wrong ones waited %v", time.Since(begun))
		}
		time.Sleep(failsForget + time.Second) // played time
		begun = time.Now()
		if _, _, err := w.SignIn(ctx, "alice", "a wrong one", from("10.0.0.1"), 0); !errors.Is(err, ErrSignIn) || time.Since(begun) != 0 {
			t.Errorf("after a quarter of an hour: %v, %v", err, time.Since(begun))
		}
		// The line is as long as its last one would wait for.
		var slow *Slow
		client, gone := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range maxFails + 10 {
			all.Go(func() { _, _, _ = w.SignIn(client, "bob", "a wrong one", from("10.0.0.1"), 0) })
		}
		synctest.Wait()
		if _, _, err := w.SignIn(ctx, "bob", "a wrong one", from("10.0.0.1"), 0); !errors.As(err, &slow) || slow.For > longestPause {
			t.Errorf("where the line is full: %v", err)
		}
		gone()
		all.Wait()
	})
}

// TestOneAddressTriesManyNames: beyond a hundred wrong passwords an address gets one look a second
// at names that did not sign in there before; those that did wait for none of it.
func TestOneAddressTriesManyNames(t *testing.T) {
	besieged(t, func(w *world) {
		_, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.1"), 0)
		w.must(err)
		for i := range maxFrom {
			if _, _, err := w.SignIn(ctx, fmt.Sprintf("user%d", i), "a wrong one", from("10.0.0.1"), 0); !errors.Is(err, ErrSignIn) {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if _, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.1"), 0); err != nil || time.Since(begun) != 0 {
			t.Errorf("alice, who signed in there before: %v after %v", err, time.Since(begun))
		}
		if _, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.2"), 0); err != nil || time.Since(begun) != 0 {
			t.Errorf("alice from elsewhere: %v after %v", err, time.Since(begun))
		}
		for range 3 {
			if _, _, err := w.SignIn(ctx, "mallory", "a wrong one", from("10.0.0.1"), 0); !errors.Is(err, ErrSignIn) {
				t.Error(err)
			}
		}
		if time.Since(begun) != 3*time.Second {
			t.Errorf("three more names took %v", time.Since(begun))
		}
		// A name says nothing of an address: one that is written as the key of another's count is a
		// name like any other.
		for range 20 {
			_, _, _ = w.SignIn(ctx, "at 10.0.0.9 alice", "a wrong one", from("10.0.0.3"), 0)
		}
		begun = time.Now()
		if _, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.9"), 0); err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// strangersWait takes the one place of strangers: those that come wait until leave is called, and
// order then has their turns.
func (w *world) strangersWait() (leave func(), order *[]string) {
	leave, err := w.gate.strangers.Wait(ctx, "first")
	w.must(err)
	order = &[]string{}
	w.gate.strangers.OnTurn = func(by string) { *order = append(*order, by) }
	return leave, order
}

// TestPasswordsAreLookedAtInTurn: those that wait for their turn are served by network, and who
// signed in before waits for no stranger.
func TestPasswordsAreLookedAtInTurn(t *testing.T) {
	besieged(t, func(w *world) {
		leave, order := w.strangersWait()
		var all sync.WaitGroup
		enter := func(name, address string) {
			all.Go(func() { _, _, _ = w.SignIn(ctx, name, password, from(address), 0) })
			synctest.Wait()
		}
		for i := range 8 {
			enter(fmt.Sprintf("user%d", i), fmt.Sprintf("2001:db8::%x", i+1))
		}
		enter("alice", "10.0.0.1")
		if _, _, err := w.SignIn(ctx, "alice", password, From{"2001:db8::1", w.Ticket("alice")}, 0); err != nil {
			t.Error(err)
		}
		leave()
		all.Wait()
		if len(*order) != 9 || (*order)[0] != "2001:db8::/64" || (*order)[1] != "10.0.0.1" {
			t.Errorf("turns: %v", *order)
		}
	})
}

// TestOneNetworkFillsNoLine: 600 networks of IPv6 that one company has, with a name each, hold no
// line full against others; who finds no room is told so, and of no wrong password.
func TestOneNetworkFillsNoLine(t *testing.T) {
	besieged(t, func(w *world) {
		leave, order := w.strangersWait()
		var all sync.WaitGroup
		var mu sync.Mutex
		refused := map[string]int{}
		enter := func(name, address string) {
			all.Go(func() {
				_, _, err := w.SignIn(ctx, name, password, from(address), 0)
				if err == nil || errors.Is(err, ErrSignIn) {
					return
				}
				if !errors.Is(err, ErrBusy) || strings.Contains(err.Error(), "wrong") {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				refused[name]++
			})
			synctest.Wait()
		}
		for i := range 600 {
			enter(fmt.Sprintf("user%d", i), fmt.Sprintf("2001:db8:0:%x::1", i))
		}
		enter("alice", "10.0.0.1")
		enter("bob", "10.0.0.2")
		leave()
		all.Wait()
		if refused["alice"]+refused["bob"] > 0 || len(refused) != 600-hashLines+2 {
			t.Errorf("refused: %v", refused)
		}
		if len(*order) < 4 || (*order)[1] != "10.0.0.1" || (*order)[3] != "10.0.0.2" {
			t.Errorf("turns: %v", *order)
		}
	})
}

// TestRightCodesWaitForNone: whatever is guessed, and from where, the code makes the first
// administrator.
func TestRightCodesWaitForNone(t *testing.T) {
	besieged(t, func(w *world) {
		code, _ := w.SetupCode()
		first := NewUser{User: access.User{Name: "root"}, Password: password}
		read, refused := 0, 0
		for i := range 500 {
			var slow *Slow
			switch _, _, err := w.SetUp(ctx, "a guess", first, fmt.Sprintf("10.0.%d.1", i%100), 0); {
			case errors.Is(err, ErrCode):
				read++
			case errors.As(err, &slow):
				refused++
			default:
				t.Fatal(err)
			}
		}
		if read > maxStrange || refused < 100 {
			t.Errorf("%d guesses were noted, %d refused", read, refused)
		}
		begun := time.Now()
		if _, _, err := w.SetUp(ctx, code, first, "10.0.1.1", 0); err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// TestTry: what an address begins by the provider and does not end well is counted, apart from
// passwords, and waits its turn; what ends well is not.
func TestTry(t *testing.T) {
	besieged(t, func(w *world) {
		for range 2 * maxFrom {
			right, err := w.Try(ctx, "10.0.0.7")
			w.must(err)
			right()
		}
		for range maxFrom {
			_, err := w.Try(ctx, "10.0.0.7")
			w.must(err)
		}
		begun := time.Now()
		_, err := w.Try(ctx, "10.0.0.8")
		if w.must(err); time.Since(begun) != 0 {
			t.Errorf("another address waited %v", time.Since(begun))
		}
		for range 3 {
			_, err := w.Try(ctx, "10.0.0.7")
			w.must(err)
		}
		if time.Since(begun) != 3*time.Second {
			t.Errorf("three more took %v", time.Since(begun))
		}
		var all sync.WaitGroup
		for range 2 * int(patience/time.Second) {
			all.Go(func() { _, _ = w.Try(ctx, "10.0.0.7") })
		}
		synctest.Wait()
		var slow *Slow
		if _, err := w.Try(ctx, "10.0.0.7"); !errors.As(err, &slow) {
			t.Errorf("where the line is full: %v", err)
		}
		all.Wait()
		if _, _, err := w.SignIn(ctx, "alice", password, from("10.0.0.7"), 0); err != nil {
			t.Errorf("a password from the same address: %v", err)
		}
	})
}

// TestSlowSaysHowLong: a wait is rounded up, so that who waits as long as is said finds room.
func TestSlowSaysHowLong(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Millisecond: "1s", time.Second: "1s", 1400 * time.Millisecond: "2s"} {
		if got := (&Slow{wait}).Error(); got != "too many wrong passwords or codes: wait "+want {
			t.Errorf("%v: %s", wait, got)
		}
	}
}

func TestWider(t *testing.T) {
	for network, want := range map[string]string{
		"10.0.0.1": "10.0.0.0/24", "2001:db8:1:2::/64": "2001:db8:1::/48",
		"the server's socket": "the server's socket", "": ""} {
		if got := wider(network); got != want {
			t.Errorf("%s is in %s; want %s", network, got, want)
		}
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "the server's socket": "the server's socket", "": ""} {
		if got := Network(address); got != want {
			t.Errorf("%s counts as %s; want %s", address, got, want)
		}
	}
}
