package config

import "regexp"

// What Kubernetes takes as names of domains and claims, and of devices and namespaces.
var (
	domainName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	deviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// fits reports whether a text is one of an expression, with so many bytes at most. Lengths are not
// in the expressions: {0,127} takes 128 times the time and memory, in each process of this program.
func fits(text string, want *regexp.Regexp, most int) bool {
	return len(text) <= most && want.MatchString(text)
}
