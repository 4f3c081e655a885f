package seats

import (
	"fmt"
	"strings"
	"testing"
)

// TestSeats: a user has a share, and all together no more than there is; what ends makes room once.
func TestSeats(t *testing.T) {
	s := Seats{All: 12, One: 3, What: "streams"}
	var last func()
	for u := range s.All / s.One {
		user := fmt.Sprintf("user%d", u)
		for range s.One {
			leave, why := s.Take(user)
			if why != "" {
				t.Fatalf("%s: %s", user, why)
			}
			last = leave
		}
		if _, why := s.Take(user); !strings.Contains(why, user+" has 3 streams open, the most that one user may have") {
			t.Errorf("one more of %s: %q", user, why)
		}
	}
	if _, why := s.Take("bob"); !strings.Contains(why, "12 streams are open, the most that this server allows") {
		t.Errorf("one more in all: %q", why)
	}
	last()
	last()
	if n := s.Taken(); n != 11 {
		t.Errorf("%d places are taken; want 11", n)
	}
	if _, why := s.Take("bob"); why != "" {
		t.Error(why)
	}
	if _, why := s.Take("alice"); why == "" {
		t.Error("what ended twice made room for two")
	}
}
