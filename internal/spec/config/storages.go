package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const (
	maxStorages = 1000
	maxFolder   = 4096 // bytes of a path
)

// storageName matches the name of a folder below /mnt, which in capitals is also part of a
// variable's name.
var storageName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

// readStorages reads the folders that jobs may name:
//
//	storages:
//	  data: {folder: /srv/data, readOnly: true}
//	  homes: {folder: /srv/homes, perUser: true, virtualClusters: [vision]}
//	  sets: {claim: team-data, folder: sets} # on Kubernetes
func readStorages(b *document.Reader, n *document.Node, hasVC func(string) bool) (list []model.Storage) {
	fields := b.Map(n, "storages").Fields()
	if len(fields) > maxStorages {
		b.Problem(n, "%d storages are too many: at most %d are allowed", len(fields), maxStorages)
		return nil
	}
	variables := map[string]string{}
	for _, f := range fields {
		s := readStorage(b, f, hasVC)
		if !fits(s.Name, storageName, 63) {
			b.Problem(f.At(), "%s is no good name for a storage: use at most 63 small letters, digits, \"-\", \"_\" and \".\", a letter or digit first and last", document.Quote(s.Name))
		} else if other := variables[model.StorageVariable(s.Name)]; other != "" {
			b.Problem(f.At(), "the storages %s and %s would share the variable %s: give one another name", other, s.Name, model.StorageVariable(s.Name))
		}
		variables[model.StorageVariable(s.Name)] = s.Name
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y model.Storage) int { return strings.Compare(x.Name, y.Name) })
	return list
}

func readStorage(b *document.Reader, f document.Field, hasVC func(string) bool) model.Storage {
	m := b.Map(f.Value, "the storage "+document.Quote(f.Key))
	if m.Node("claim") == nil {
		m.Require("folder")
	}
	s := model.Storage{Name: f.Key, Folder: m.String("folder", document.Text{Max: maxFolder}), Claim: m.String("claim", document.Text{Max: maxFolder}),
		ReadOnly: m.Bool("readOnly", false), PerUser: m.Bool("perUser", false)}
	if at := m.Node("claim"); at != nil && !fits(s.Claim, domainName, 253) {
		b.Problem(at, "%s is no name of a PersistentVolumeClaim: use at most 253 small letters, digits, \"-\" and \".\", a letter or digit first and last", document.Quote(s.Claim))
	}
	switch at := m.Node("folder"); {
	case s.Folder == "":
	case m.Node("claim") != nil:
		if filepath.Clean(s.Folder) != s.Folder || !filepath.IsLocal(s.Folder) || s.Folder == "." || strings.ContainsRune(s.Folder, 0) {
			b.Problem(at, "%s is no plain path in the claim: begin it without /, and leave out \".\", \"..\" and a / at its end", document.Quote(s.Folder))
		}
	case !filepath.IsAbs(s.Folder) || filepath.Clean(s.Folder) != s.Folder || strings.ContainsRune(s.Folder, 0):
		b.Problem(at, "%s is no plain path: begin it with /, without \".\", \"..\" and a / at its end", document.Quote(s.Folder))
	case slices.ContainsFunc(systemFolders(), func(top string) bool { return s.Folder == top || strings.HasPrefix(s.Folder, top+"/") }) || s.Folder == "/":
		b.Problem(at, "%s is a folder of the machine itself, which no job may see: name one that holds data only", document.Quote(s.Folder))
	}
	for _, item := range m.List("virtualClusters") {
		text := b.String(item, document.Text{Max: maxFolder})
		name := cell.VCName(text)
		switch {
		case name == "":
		case !hasVC(text):
			b.Problem(item, "there is no virtual cluster %s", document.Quote(text))
		case slices.Contains(s.VCs, name):
			b.Problem(item, "the virtual cluster %s stands here twice", document.Quote(text))
		default:
			s.VCs = append(s.VCs, name)
		}
	}
	slices.Sort(s.VCs)
	if list := m.Node("virtualClusters"); list != nil && list.Kind == document.List && len(list.Items) == 0 {
		b.Problem(list, "an empty list would allow no virtual cluster; leave the key out to allow all")
	}
	m.Rest()
	return s
}

// systemFolders are folders that control the machine.
func systemFolders() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run", "/var/lib/docker", "/var/lib/containerd"}
}
