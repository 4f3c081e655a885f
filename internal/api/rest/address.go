package rest

import (
	"context"
	"fmt"
	"net"
)

// CheckAddress says what is wrong with an address on which a server is to listen. public
// allows an address that other machines can reach.
func CheckAddress(ctx context.Context, address string, public bool) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT, such as 127.0.0.1:8420", address)
	}
	if !public && !Loopback(host) {
		return fmt.Errorf("listen address %q can be reached from other machines, and tokens would cross the network in clear: "+
			"give a certificate with --tls-cert and --tls-key, use 127.0.0.1 and a tunnel or a TLS proxy, or say --insecure-listen-without-tls", address)
	}
	return nil
}

// Loopback reports whether only this machine itself can reach a host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
