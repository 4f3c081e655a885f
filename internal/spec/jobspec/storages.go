package jobspec

import (
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/upload"
)

// maxStorages is how many storages a job may name.
const maxStorages = 64

// storagePlugin is OpenPAI's plug-in that mounts a team's storages.
const storagePlugin = "teamwise_storage"

// readPlugins reads OpenPAI's runtime plug-ins. The one for storages means the same as
// extras.comb.storages. It warns of the others.
func (p *parser) readPlugins(n *document.Node) {
	if n == nil || n.Kind == document.Null {
		return
	}
	if n.Kind != document.List {
		p.r.Problem(n, "expected a list of plug-ins, each {plugin: NAME, parameters: ...}")
		return
	}
	for _, item := range n.Items {
		m := p.r.Map(item, "a plug-in")
		if name := m.String("plugin", document.Text{Max: maxName}); name != storagePlugin {
			p.r.Warn(item, "nothing here acts on the plug-in %s; it is kept in the job file", document.Quote(name))
			continue
		}
		at := m.Node("parameters")
		if at == nil || at.Kind == document.Null {
			p.r.Warn(item, "the plug-in %s names no storage: write parameters: {storageConfigNames: [NAME]}", storagePlugin)
			continue
		}
		for _, name := range p.r.Map(at, "the parameters of "+storagePlugin).List("storageConfigNames") {
			p.addStorage(name)
		}
	}
}

// readUpload reads which uploaded code the job's tasks find in their working directory.
func readUpload(p *parser, n *document.Node) {
	digest := p.r.String(n, document.Text{Max: maxName})
	if p.env.Upload != "" {
		digest = p.env.Upload
	}
	switch {
	case digest == "":
		return
	case !upload.ValidDigest(digest):
		p.r.Problem(n, "%s is no upload: it is named by its digest, sha256: and 64 hexadecimal digits, as comb job submit --upload DIR does", document.Quote(digest))
	case p.env.Uploaded == nil || !p.env.Uploaded(digest):
		p.r.Problem(n, "%s has no upload %s here: comb job submit --upload DIR, or comb job run --upload DIR, sends a folder and names it", p.job.User, digest)
	}
	p.job.Upload = digest
}

// addStorage reads the name of one storage that is mounted for the job's tasks.
func (p *parser) addStorage(n *document.Node) {
	name := p.r.String(n, document.Text{Max: maxName})
	vcs := model.VCAndParents(p.catalogue.spec.VCs, p.job.VC)
	one, ok := model.FindStorage(p.catalogue.storages, name)
	switch {
	case n.Kind == document.Null || n.Kind == document.Scalar && name == "":
		p.r.Problem(n, "expected the name of a storage")
	case name == "" || slices.Contains(p.job.Storages, name): // it is reported, or named both ways
	case !ok || !one.For(vcs): // other VCs' storages are as if they did not exist
		if names := model.StorageNames(p.catalogue.storages, vcs); len(names) > 0 {
			p.r.Problem(n, "VC %s has no storage %s; it has %s", p.job.VC, document.Quote(name), list(names))
		} else {
			p.r.Problem(n, "VC %s has no storage %s, nor any other: an administrator adds storages to the cluster file", p.job.VC, document.Quote(name))
		}
	case len(p.job.Storages) == maxStorages:
		p.r.Problem(n, "a job may name %d storages at most", maxStorages)
	default:
		p.job.Storages = append(p.job.Storages, name)
	}
}
