package visit

import (
	"fmt"
	"strings"
	"testing"
)

// TestSeats: a user has a share, and all together no more than there is; a visit that ends makes room once.
func TestSeats(t *testing.T) {
	var s Seats
	var last func()
	for u := range most / mostOne {
		user := fmt.Sprintf("user%d", u)
		for range mostOne {
			leave, why := s.Take(user)
			if why != "" {
				t.Fatalf("%s: %s", user, why)
			}
			last = leave
		}
		if _, why := s.Take(user); !strings.Contains(why, user+" has 64 commands and connections open") {
			t.Errorf("one more of %s: %q", user, why)
		}
	}
	if _, why := s.Take("bob"); !strings.Contains(why, "256 commands and connections are open in tasks, the most that this server allows") {
		t.Errorf("one more in all: %q", why)
	}
	last()
	last()
	if _, why := s.Take("bob"); why != "" {
		t.Error(why)
	}
	if _, why := s.Take("alice"); why == "" {
		t.Error("a visit that ended twice made room for two")
	}
}
