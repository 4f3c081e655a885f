package server

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// TestListenWaitsForWhoIsLeaving: the address of a server that was just killed may be in use for a
// moment; one that stays in use is refused.
func TestListenWaitsForWhoIsLeaving(t *testing.T) {
	old, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := old.Addr().String()
	if l, err := Listen(context.Background(), address, false); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("an address in use: %v, %v", l, err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond) // it leaves while it is waited for; earlier does no harm
		_ = old.Close()
	}()
	l, err := Listen(context.Background(), address, false)
	if err != nil {
		t.Fatalf("an address that is free in a moment: %v", err)
	}
	_ = l.Close()
}
