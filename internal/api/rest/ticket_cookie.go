package rest

import (
	"net/http"
	"time"
)

// Names of the cookie with a browser's tickets, over TLS and without.
const (
	secureDevice = "__Host-comb_device"
	plainDevice  = "comb_device"
)

// Tickets returns the tickets of earlier sign-ins in a browser's cookies.
func Tickets(h http.Header) (kept string) {
	r := http.Request{Header: h}
	for _, name := range []string{plainDevice, secureDevice} {
		if c, err := r.Cookie(name); err == nil {
			kept = c.Value
		}
	}
	return kept
}

// DeviceCookie stores a browser's tickets. They stay when its user signs out.
func DeviceCookie(secure bool, tickets string, life time.Duration) http.Cookie {
	c := http.Cookie{Name: plainDevice, Value: tickets, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(life.Seconds())}
	if secure {
		c.Name, c.Secure = secureDevice, true
	}
	return c
}
