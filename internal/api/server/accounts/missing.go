package accounts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/access"
)

// MissingGroups warns of groups that have roles in a cluster file and do not exist. It is no
// error: they may be created later.
func MissingGroups(grants []access.Grant, directory *people.Directory) (warnings []string) {
	known := []string{access.Everyone}
	for _, g := range directory.Groups() {
		known = append(known, g.Name)
	}
	told := map[string]bool{}
	for i := range grants {
		for _, name := range grants[i].Groups() {
			if slices.Contains(known, name) || told[name] {
				continue
			}
			told[name] = true
			next := document.DidYouMean(name, known)
			if !strings.Contains(next, "did you mean") {
				next = ": comb group create " + name + " makes it"
			}
			warnings = append(warnings, fmt.Sprintf("access of virtual clusters %s: there is no group %s%s", strings.Join(access.VCsGranted(grants, name), ", "), name, next))
		}
	}
	return warnings
}
