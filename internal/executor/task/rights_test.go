package task

import (
	"os"
	"strings"
	"testing"
)

// A user that was not made by Keep is not taken for one.
func TestKeptByNothing(t *testing.T) {
	if err := KeepCapabilities(os.Geteuid(), nil); err == nil || !strings.Contains(err.Error(), "was not started by root") {
		t.Errorf("it keeps what it has: %v", err)
	}
}
