package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks of proxies that are trusted to name a request's client.
type Proxies []netip.Prefix

// ParseProxies reads networks such as 10.0.0.0/8, or single addresses.
func ParseProxies(texts []string) (out Proxies, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, lone := netip.ParseAddr(text); err != nil && lone == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no network: want such as 10.0.0.0/8, or an address", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (p Proxies) trust(a netip.Addr) bool {
	for _, one := range p {
		if one.Contains(a) {
			return true
		}
	}
	return false
}

// client returns a request with its client's address in place of that of the proxy. It is the
// last address of X-Forwarded-For that is not a trusted proxy's, since all before it may be
// forged. What counts, logs or bounds by address then needs no knowledge of proxies.
func (p Proxies) client(r *http.Request) *http.Request {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if len(p) == 0 || err != nil || !p.trust(at.Addr().Unmap()) {
		return r
	}
	from := at.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(from); i-- {
		hop, ok := address(strings.TrimSpace(hops[i]))
		if !ok {
			break // the hop before cannot be known
		}
		from = hop
	}
	if from == at.Addr().Unmap() {
		return r
	}
	out := *r
	out.RemoteAddr = net.JoinHostPort(from.String(), "0")
	return &out
}

// address reads an address with or without a port.
func address(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap(), err == nil
}

// hostOf is the address of a request's client without its port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
