package rest

import (
	"fmt"
	"net"
	"testing"
)

// TestUnknownName: a server's name without an address is told in plain words.
func TestUnknownName(t *testing.T) {
	u := &Unreachable{URL: "http://foo", Err: fmt.Errorf("dial tcp: %w", &net.DNSError{Name: "foo", Server: "[::1]:53"})}
	want := "cannot reach the server at http://foo: no address of foo is found; is the name right?"
	if got := u.Error(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
