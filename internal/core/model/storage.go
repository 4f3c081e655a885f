package model

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// StorageTop is the folder in which a container finds its job's storages, each by its name.
const StorageTop = "/mnt"

// StorageVariable is the name of the variable that says where a task finds a storage.
func StorageVariable(name string) string {
	return "COMB_STORAGE_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// Storage is one entry of "storages" in the cluster file.
type Storage struct {
	Name string `json:"name"`
	// Folder is an absolute path, the same on each node. With a Claim it is a path in that, "" for
	// all of it.
	Folder string `json:"folder"`
	// Claim is the name of a PersistentVolumeClaim, on Kubernetes alone.
	Claim string `json:"claim,omitempty"`
	// ReadOnly storages cannot be written by a container.
	ReadOnly bool `json:"read_only,omitempty"`
	// PerUser gives each user access only to a folder in it that is named as the user.
	PerUser bool `json:"per_user,omitempty"`
	// VCs may use it, and the VCs inside them; none is all.
	VCs []cell.VCName `json:"vcs,omitempty"`
}

// userName is what a user's folder may be called, with at most longestUser bytes.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_@.-]*$`)

const longestUser = 128

// UserFolder is the name of a user's own folder in a storage that has one for each.
func UserFolder(user string) (string, error) {
	if len(user) > longestUser || !userName.MatchString(user) {
		return "", fmt.Errorf("the user %q cannot have a folder in it, whose name has only letters, digits and _ @ . -", user)
	}
	return user, nil
}

// CheckStorages refuses storages that a server cannot give its tasks: with claims, on Kubernetes,
// folders, and elsewhere claims.
func CheckStorages(list []Storage, claims bool) error {
	for _, s := range list {
		switch {
		case claims && s.Claim == "":
			return fmt.Errorf("the storage %s is a folder of machines, and on Kubernetes a storage is a claim: write %s: {claim: NAME}, with the name of a PersistentVolumeClaim", s.Name, s.Name)
		case !claims && s.Claim != "":
			return fmt.Errorf("the storage %s is the claim %s of Kubernetes, and this server runs tasks on its machine: write %s: {folder: /PATH}", s.Name, s.Claim, s.Name)
		}
	}
	return nil
}

// FindStorage returns the storage of a name.
func FindStorage(list []Storage, name string) (Storage, bool) {
	i := slices.IndexFunc(list, func(s Storage) bool { return s.Name == name })
	if i < 0 {
		return Storage{}, false
	}
	return list[i], true
}

// VCAndParents returns a virtual cluster and those around it, the inner ones first.
func VCAndParents(all []cell.VCSpec, name cell.VCName) (vcs []cell.VCName) {
	for {
		i := slices.IndexFunc(all, func(v cell.VCSpec) bool { return v.Name == name })
		if i < 0 || slices.Contains(vcs, name) {
			return vcs
		}
		vcs, name = append(vcs, name), all[i].Parent
	}
}

// For reports whether jobs of a virtual cluster may use it; vcs are VCAndParents of that one.
func (s *Storage) For(vcs []cell.VCName) bool {
	return len(s.VCs) == 0 || slices.ContainsFunc(vcs, func(vc cell.VCName) bool { return slices.Contains(s.VCs, vc) })
}

// StorageNames returns the names of the storages that jobs of a virtual cluster may use; vcs are
// VCAndParents of that one.
func StorageNames(list []Storage, vcs []cell.VCName) (names []string) {
	for i := range list {
		if list[i].For(vcs) {
			names = append(names, list[i].Name)
		}
	}
	return names
}

// String is a storage in words: "/srv/data, read-only, for VCs a and b".
func (s *Storage) String() string {
	text := s.Folder
	if s.Claim != "" {
		text = "the claim " + s.Claim
		if s.Folder != "" {
			text += ", folder " + s.Folder
		}
	}
	if s.PerUser {
		text += ", a folder for each user"
	}
	if s.ReadOnly {
		text += ", read-only"
	}
	if len(s.VCs) > 0 {
		names := make([]string, len(s.VCs))
		for i, vc := range s.VCs {
			names[i] = string(vc)
		}
		text += ", for " + strings.Join(names, ", ")
	}
	return text
}

// StorageChanges are the differences between two lists in words, a line each. Both lists are in
// order of name.
func StorageChanges(was, is []Storage) (lines []string) {
	for i := range was {
		if _, ok := FindStorage(is, was[i].Name); !ok {
			lines = append(lines, fmt.Sprintf("storage %s is removed: jobs with it cannot start any more", was[i].Name))
		}
	}
	for i := range is {
		before, ok := FindStorage(was, is[i].Name)
		switch {
		case !ok:
			lines = append(lines, fmt.Sprintf("storage %s is added: %s", is[i].Name, &is[i]))
		case before.String() != is[i].String():
			lines = append(lines, fmt.Sprintf("storage %s changes for tasks started from now on: %s -> %s",
				is[i].Name, &before, &is[i]))
		}
	}
	return lines
}
