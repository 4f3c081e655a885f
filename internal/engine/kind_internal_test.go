package engine

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// The digest of a command is that of its fields and the name under which it was kept first.
func TestRequestOfACommand(t *testing.T) {
	c := model.Cordon{Node: "n1"}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := requestOf(&Input{Command: c})
	if want := Request(sha256.Sum256(append(text, "sched.Cordon"...))); err != nil || got != want {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
}
