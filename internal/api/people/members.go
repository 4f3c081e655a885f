package people

import (
	"context"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/engine/store"
)

// SetMembers adds users to a group and removes others, all or none.
func (d *Directory) SetMembers(ctx context.Context, by, group string, add, remove []string) error {
	d.write.Lock()
	defer d.write.Unlock()
	if _, err := d.Group(group); err != nil {
		return err
	}
	var wrong []string
	var changes []change
	seen := map[string]bool{}
	for i, name := range slices.Concat(add, remove) {
		u, err := d.User(name)
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
			continue
		case seen[name]:
			wrong = append(wrong, fmt.Sprintf("%s is named twice", name))
			continue
		}
		seen[name] = true
		c := u.Clone()
		at, in := slices.BinarySearch(c.Groups, group)
		switch {
		case i < len(add) && !in:
			c.Groups = slices.Insert(c.Groups, at, group)
		case i >= len(add) && in:
			c.Groups = slices.Delete(c.Groups, at, at+1)
		case i >= len(add) && slices.Contains(c.AllGroups(), group):
			wrong = append(wrong, fmt.Sprintf("%s is in %s by the identity provider, which alone can take it out: it follows at the next sign-in", name, group))
			continue
		default:
			continue // nothing changes
		}
		for _, text := range (&access.User{Name: c.Name, Groups: c.Groups, Provider: c.Provider}).Check() {
			wrong = append(wrong, fmt.Sprintf("user %s: %s", name, text))
		}
		changes = append(changes, change{user: c, verb: "change user",
			detail: groupsText(c.AllGroups(), u.AllGroups())})
	}
	if len(wrong) > 0 {
		return &Problem{ErrInvalid, wrong}
	}
	if len(changes) == 0 {
		return nil
	}
	return d.commit(ctx, by, changes)
}

// VerifyLog checks the chain of the audit log. The result is how many lines follow from one
// another, the digest up to the last of them, and what is wrong with the next one; "" is
// nothing.
func (d *Directory) VerifyLog(ctx context.Context) (store.AuditProof, error) {
	return d.store.VerifyAudit(ctx)
}
