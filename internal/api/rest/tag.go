package rest

import (
	"fmt"
	"regexp"
)

var tagged = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:=@+-]*$`)

const longestTag = 64

// CheckTag says why a text cannot be a tag of a job; "" is that it can.
func CheckTag(tag string) string {
	if len(tag) <= longestTag && tagged.MatchString(tag) {
		return ""
	}
	if len(tag) > 100 {
		tag = tag[:100] + "..."
	}
	return fmt.Sprintf("%q cannot be a tag: want up to 64 letters, digits and . _ : = @ + -, a letter or digit first", tag)
}
