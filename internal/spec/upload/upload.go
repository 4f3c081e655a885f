// Package upload packs a folder with code into one file and unpacks it. The file is sorted
// and has no times and owners, so the same content is the same bytes. A depot keeps uploads
// on a server's disk by subject and digest. What is unpacked is not trusted: the package must
// write nothing outside of the given folder, and no more than what was sent.
package upload

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Limits bound what is packed and unpacked.
type Limits struct {
	Bytes int64 // of the archive
	Files int   // files, folders and links
}

// Default are the limits of a server without other settings.
var Default = Limits{Bytes: 100 << 20, Files: 100_000}

const (
	longestPath = 1024 // bytes of a name with its folders
	longestPart = 255  // bytes of one name in a folder
	deepest     = 64   // how deep folders are nested
	permissions = 0o777
)

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ValidDigest reports whether a text can name an upload: "sha256:" and 64 hexadecimal digits.
func ValidDigest(text string) bool { return digest.MatchString(text) }

// Within reports whether a name stays in the folder to which it is relative: "a/b", neither
// "/a" nor "a/../b".
func Within(name string) bool {
	return name != "" && name != "." && name != ".." && path.Clean(name) == name && !path.IsAbs(name) && !strings.HasPrefix(name, "../")
}

// checkName says what is wrong with the name of an entry; "" is nothing wrong.
func checkName(name string) string {
	switch {
	case !Within(name) || strings.ContainsRune(name, 0):
		return "is no name inside of the folder"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "has a control character in its name"
	case len(name) > longestPath:
		return fmt.Sprintf("has a name of %d bytes, more than %d", len(name), longestPath)
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > longestPart }):
		return fmt.Sprintf("has a part of more than %d bytes, which no file system takes", longestPart)
	case strings.Count(name, "/") >= deepest:
		return fmt.Sprintf("lies in more than %d folders", deepest)
	}
	return ""
}

// staysInside reports whether a link of that name leads to something in the folder. A target
// may climb only at its beginning, where the folders are known to be folders. After another
// name ".." could be relative to a link.
func staysInside(name, target string) bool {
	if target == "" || path.IsAbs(target) || len(target) > longestPath || strings.ContainsRune(target, 0) {
		return false
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return true
}

// Size writes a number of bytes for people: "12.3 MiB".
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
