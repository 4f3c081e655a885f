package docker

import (
	"fmt"
	"strconv"
	"strings"
)

// OldRunc warns of a version of runc from which containers are known to break out, in words; "":
// none is known, or the version cannot be read.
func OldRunc(version string) string {
	n, ok := numbers(version)
	if !ok {
		return ""
	}
	const ways = "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881"
	mended := map[int]int{2: 8, 3: 3} // of 1.2 and 1.3: the first fixed patch; all of 1.4 are fixed
	patch, known := mended[n[1]]
	if n[0] > 1 || n[1] > 3 || known && n[2] >= patch {
		return ""
	}
	return fmt.Sprintf("its runc %s has known ways out of containers (%s), unless its distributor mended them: update it to 1.2.8, 1.3.3, 1.4 or later", version, ways)
}

// numbers reads "1.2.3", whatever follows it.
func numbers(version string) (n [3]int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return n, false
	}
	for i, p := range parts {
		end := strings.IndexFunc(p, func(r rune) bool { return r < '0' || r > '9' })
		if end >= 0 {
			p = p[:end]
		}
		var err error
		if n[i], err = strconv.Atoi(p); err != nil {
			return n, false
		}
	}
	return n, true
}
