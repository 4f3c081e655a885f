package config

import "regexp"

// The names that Kubernetes accepts for domains and claims, and for devices and namespaces.
var (
	domainName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	deviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// fits reports whether a text matches and has at most this many bytes. Lengths are not in the
// expressions: {0,127} would cost 128 times the time and memory, in each process of this
// program.
func fits(text string, want *regexp.Regexp, most int) bool {
	return len(text) <= most && want.MatchString(text)
}
