package jobspec

import (
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// extras is what the extras of a job file say about scheduling.
type extras struct {
	gang     bool
	priority *document.Node // place of HiveD's priority class; nil if there is none
	places   map[string]placement
	comb     map[string]combRole
	pull     string
	node     *document.Node // extras.comb, nil if there is none
}

// A placement is what extras.hivedScheduler says about one task role. Its nodes are the
// places of the values, for messages.
type placement struct {
	skus       []cell.TypeName // none is any SKU that fits
	skuNodes   []*document.Node
	pinned     cell.PinnedID
	number     int64 // skuNum; 0 is not given
	affinity   string
	skuNode    *document.Node
	pinnedNode *document.Node
	numberNode *document.Node
	groupNode  *document.Node
}

// readExtras reads the extras that have a meaning here, and warns of the others.
func (p *parser) readExtras(top *document.MapReader) {
	m := top.Map("extras", "extras")
	p.warnUnknown(m, "submitFrom", "gangAllocation", "hivedScheduler", "comb",
		"com.microsoft.pai.runtimeplugin", "jobStatusChangeNotification")
	if n := m.Node("jobStatusChangeNotification"); n != nil {
		p.r.Warn(n, "nothing here acts on this key; it is kept in the job file")
	}
	p.readPlugins(m.Node("com.microsoft.pai.runtimeplugin"))
	p.extras.gang = m.Bool("gangAllocation", true)
	p.readHived(m.Map("hivedScheduler", "hivedScheduler"))
	p.readComb(m.Map("comb", "extras.comb"))
}

func (p *parser) readHived(m *document.MapReader) {
	class := m.Node("jobPriorityClass")
	name := p.r.String(class, document.Text{Default: "test", OneOf: model.PriorityNames()})
	p.job.Priority, _ = model.PriorityNamed(name)
	if class != nil && class.Kind != document.Null {
		p.extras.priority = class
	}
	p.job.LazyPreempt = m.Bool("lazyPreemptionEnable", false)
	for _, key := range []string{"gangReleaseEnable", "ignoreK8sSuggestedNodes"} {
		if n := m.Node(key); p.r.Bool(n, false) {
			p.r.Warn(n, "this key has no effect here: it steers HiveD's work with Kubernetes")
		}
	}
	p.extras.places = map[string]placement{}
	for _, f := range m.Map("taskRoles", "the task roles of hivedScheduler").Fields() {
		p.checkRoleName(f)
		p.extras.places[f.Key] = p.readPlacement(f)
	}
	p.unknownHived(m, ofJob, ofRole, "below taskRoles, at the task role")
}

func (p *parser) readPlacement(f document.Field) placement {
	m := p.r.Map(f.Value, "a task role of hivedScheduler")
	pl := placement{
		skuNode: m.Node("skuType"), pinnedNode: m.Node("pinnedCellId"),
		numberNode: m.Node("skuNum"), groupNode: m.Node("affinityGroupName"),
	}
	pl.skus, pl.skuNodes = p.readSKUs(pl.skuNode)
	pl.pinned = cell.PinnedID(p.r.String(pl.pinnedNode, document.Text{Max: maxName}))
	if pl.numberNode != nil && pl.numberNode.Kind != document.Null {
		pl.number = p.r.Int(pl.numberNode, document.Range{Max: maxLeaves}) // sizeRole warns of 0
	}
	pl.affinity = p.name(pl.groupNode)
	if len(pl.skus) > 0 && pl.pinned != "" {
		p.r.Problem(pl.pinnedNode, "skuType and pinnedCellId exclude each other: a pinned cell has its own SKU; leave one out")
		pl.skus = nil
	}
	p.unknownHived(m, ofRole, ofJob, "beside taskRoles")
	return pl
}

// The keys of hivedScheduler: those of the job, then those of a task role.
var (
	ofJob  = []string{"jobPriorityClass", "lazyPreemptionEnable", "gangReleaseEnable", "ignoreK8sSuggestedNodes", "taskRoles"}
	ofRole = []string{"skuType", "skuNum", "pinnedCellId", "affinityGroupName"}
)

// keyToday is the present key for an older key of OpenPAI, or for a key of HiveD's own
// requests; "" for any other.
func keyToday(key string) string {
	switch key {
	case "gpuType", "leafCellType":
		return "skuType"
	case "gpuNumber", "leafCellNumber":
		return "skuNum"
	case "reservationId":
		return "pinnedCellId"
	case "affinityGroup":
		return "affinityGroupName"
	case "priority":
		return "extras.comb.priority"
	case "virtualCluster":
		return "defaults.virtualCluster"
	}
	return ""
}

// unknownHived reports keys that are not read but were meant for one that is: without it the
// job would run elsewhere, or before others. It warns of all other unknown keys.
func (p *parser) unknownHived(m *document.MapReader, known, elsewhere []string, place string) {
	for _, f := range m.Fields() {
		today := keyToday(f.Key)
		switch {
		case contains(known, f.Key):
		case f.Value.Kind == document.Null:
			p.r.Warn(f.Value, "this key has no value and no effect; remove it")
		case today != "":
			p.r.Problem(f.At(), "%s has no effect today; the key that means the same is %s", f.Key, today)
		case contains(elsewhere, f.Key):
			p.r.Problem(f.At(), "%s has no effect here; write it %s", f.Key, place)
		default:
			hint := p.hint(f.Key, known)
			if strings.Contains(hint, "did you mean") {
				p.r.Problem(f.At(), "this key has no effect%s", hint)
				continue
			}
			p.r.Warn(f.Value, "nothing here reads this key; it is kept in the job file")
		}
	}
}

// readSKUs reads one SKU, or a list of alternatives.
func (p *parser) readSKUs(n *document.Node) (out []cell.TypeName, at []*document.Node) {
	if n == nil || n.Kind != document.List {
		if name := p.r.String(n, document.Text{Max: maxName}); name != "" {
			return []cell.TypeName{cell.TypeName(name)}, []*document.Node{n}
		}
		return nil, nil
	}
	for _, item := range n.Items {
		name := cell.TypeName(p.r.String(item, document.Text{Max: maxName}))
		switch {
		case item.Kind == document.Null:
			p.r.Problem(item, "expected the name of a SKU")
		case slices.Contains(out, name):
			p.r.Problem(item, "the SKU %s stands here twice", document.Quote(string(name)))
		case name != "":
			out, at = append(out, name), append(at, item)
		}
	}
	if len(n.Items) == 0 {
		p.r.Problem(n, "an empty list would allow no SKU; leave the key out to allow all that serve")
	}
	return out, at
}
