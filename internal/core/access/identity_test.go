package access

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"alice": true, "a": true, "Bob.Smith-2_x": true, "7": true,
		"": false, "a~b": false, ".a": false, "a-": false, "a b": false, "ä": false, "a/b": false, strings.Repeat("a", 65): false} {
		if ValidName(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

func TestUsersAreChecked(t *testing.T) {
	u := User{Name: "a~", Display: "x\x1b[2J", Email: "nobody", Groups: make([]string, MaxGroups+1), Extension: []byte(`[1]`)}
	if wrong := u.Check(); len(wrong) != 5 {
		t.Errorf("want a sentence for each of five mistakes: %q", wrong)
	}
	if wrong := (&User{Name: "alice", Display: "Alice Ä.", Email: "alice@example.com", Extension: []byte(`{"a":1}`)}).Check(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	if wrong := (&Group{Name: Everyone}).Check(); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
}

func TestGroupsOfAPrincipal(t *testing.T) {
	p := Principal{User: "alice", Groups: []string{"a", "c"}, IsUser: true}
	for group, want := range map[string]bool{"a": true, "b": false, "c": true, Everyone: true} {
		if p.In(group) != want {
			t.Errorf("%s: want %v", group, want)
		}
	}
	if (&Principal{User: "admin", Admin: true}).In(Everyone) {
		t.Error("the holder of the data directory's token is no user")
	}
}
