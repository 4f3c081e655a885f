package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// emptied is one field of a file with what is written for its value.
type emptied struct {
	at    *document.Node // of kind Scalar, List or Map
	value *document.Node
}

// empties are the ways to empty each value of a document.
func empties(n *document.Node) (out []emptied) {
	null := &document.Node{}
	for _, f := range n.Fields {
		out = append(out, emptied{f.Value, null}, emptied{f.Value, &document.Node{Kind: max(f.Value.Kind, document.Scalar)}})
		out = append(out, empties(f.Value)...)
	}
	for _, item := range n.Items {
		out = append(out, emptied{item, null})
		out = append(out, empties(item)...)
	}
	return out
}

// write writes a document in block style, and notes the line of one value.
func write(b *strings.Builder, n *document.Node, indent string, mark *document.Node, line *int) {
	if n == mark {
		*line = strings.Count(b.String(), "\n") + 1
	}
	if len(n.Fields)+len(n.Items) > 0 {
		b.WriteString("\n")
	}
	for _, f := range n.Fields {
		b.WriteString(indent + strconv.Quote(f.Key) + ":")
		write(b, f.Value, indent+"  ", mark, line)
	}
	for _, item := range n.Items {
		b.WriteString(indent + "-")
		write(b, item, indent+"  ", mark, line)
	}
	switch {
	case len(n.Fields)+len(n.Items) > 0:
	case n.Kind == document.Scalar && n.Type == document.String:
		b.WriteString(" " + strconv.Quote(n.Text) + "\n")
	default:
		b.WriteString(" " + [...]string{"null", n.Text, "[]", "{}"}[n.Kind] + "\n")
	}
}

// hivedCluster is what HiveD makes of a file: the cells with their addresses, and
// each virtual cluster's cells by chain and type.
type hivedCluster struct {
	Cells []cell.CellSpec
	VCs   map[string]map[string]int64
}

func child(v any, key string) any {
	m, _ := v.(map[string]any)
	return m[key]
}

func plainText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func wholeNumber(v any) int64 {
	n, _ := v.(int64)
	return n
}

// readHived goes by HiveD's rules: a type is followed down from the top, a text that is
// empty or missing is inferred, an address is an index that starts again at a machine.
func readHived(root any) hivedCluster {
	physical := child(root, "physicalCluster")
	types, _ := child(physical, "cellTypes").(map[string]any)
	h := hivedCluster{VCs: map[string]map[string]int64{}}
	tops, _ := child(physical, "physicalCells").([]any)
	for i, top := range tops {
		h.Cells = append(h.Cells, hivedCell(types, top, plainText(child(top, "cellType")), int64(i)))
	}
	vcs, _ := child(root, "virtualClusters").(map[string]any)
	for name, v := range vcs {
		h.VCs[name] = map[string]int64{}
		cells, _ := child(v, "virtualCells").([]any)
		for _, c := range cells {
			path := strings.Split(plainText(child(c, "cellType")), ".")
			if n := wholeNumber(child(c, "cellNumber")); n > 0 {
				h.VCs[name][path[0]+" "+path[len(path)-1]] += n
			}
		}
		pins, _ := child(v, "pinnedCells").([]any)
		for _, p := range pins {
			h.VCs[name]["pinned "+plainText(child(p, "pinnedCellId"))]++
		}
	}
	return h
}

func hivedCell(types map[string]any, spec any, typ string, index int64) cell.CellSpec {
	c := cell.CellSpec{Type: cell.TypeName(typ), Address: plainText(child(spec, "cellAddress")), Pinned: cell.PinnedID(plainText(child(spec, "pinnedCellId")))}
	if c.Address == "" {
		c.Address = strconv.FormatInt(index, 10)
	}
	t, inner := types[typ]
	if !inner {
		return c
	}
	if child(t, "isNodeLevel") == true {
		index = 0
	}
	size := wholeNumber(child(t, "childCellNumber"))
	written, _ := child(spec, "cellChildren").([]any)
	if len(written) == 0 {
		written = make([]any, size)
	}
	for i, w := range written {
		c.Children = append(c.Children, hivedCell(types, w, plainText(child(t, "childCellType")), index*size+int64(i)))
	}
	return c
}

// readOurs is the same of a cluster that was read here.
func readOurs(c *Cluster) hivedCluster {
	h := hivedCluster{Cells: c.Config.Cluster.Cells, VCs: map[string]map[string]int64{}}
	levels := map[cell.ChainName][]cell.LevelSpec{}
	for _, ch := range c.Config.Cluster.Chains {
		levels[ch.Name] = ch.Levels
	}
	for _, v := range c.Config.Cluster.VCs {
		h.VCs[string(v.Name)] = map[string]int64{}
		for _, q := range v.Quota {
			h.VCs[string(v.Name)][string(q.Chain)+" "+string(levels[q.Chain][q.Level-1].Type)] += int64(q.Number)
		}
		for _, p := range v.Pinned {
			h.VCs[string(v.Name)]["pinned "+string(p)]++
		}
	}
	return h
}

// emptyFields is the table: what becomes of a file in which a field has no value. "loads"
// is as HiveD loads it. All else begins a problem, at the field or, after "elsewhere: ", at
// the place that it leads to. HiveD stops with a panic there, or goes on with a cluster that
// contradicts itself.
var emptyFields = []struct{ field, outcomes string }{
	{`(kube\w+|webServerAddress|forcePod\w+|waitingPod\w+|quotaExcludeVCs)(\[\])?`, `loads`},
	{`physicalCluster`, `physicalCluster has no value; write|physicalCluster needs the key "\w+"`},
	{`physicalCluster.cellTypes`, `cellTypes has no value; write|cellTypes is empty; write`},
	{`physicalCluster.cellTypes.T`, `the cell type "T" needs the key "\w+"`},
	{`physicalCluster.cellTypes.T.childCellType`, `childCellType has no value; write`},
	{`physicalCluster.cellTypes.T.childCellNumber`, `childCellNumber has no value; write|expected an integer, found the text ""`},
	{`physicalCluster.cellTypes.T.isNodeLevel`, `loads|elsewhere: the types .* need exactly one node level, found 0; set|expected true or false`},
	{`physicalCluster.(sku|gpu)Types(.T(.gpu)?)?`, `loads|expected an integer`},
	{`physicalCluster.(sku|gpu)Types.T.(cpu|memory)`, `loads|expected a(n amount of| number of)`},
	{`physicalCluster.physicalCells`, `physicalCells has no value; write|physicalCells is empty; the cluster needs`},
	{`physicalCluster.physicalCells\[\]`, `the cell needs the key "cellType"`},
	{`physicalCluster.physicalCells\[\].cellType`, `cellType has no value; write`},
	{`physicalCluster.physicalCells\[\](.cellChildren\[\])+.cellType`, `loads`},
	{`physicalCluster.physicalCells\[\](.cellChildren\[\])*.cellAddress`, twice},
	{`physicalCluster.physicalCells\[\](.cellChildren\[\])+`, twice + `|` + unpinned},
	{`physicalCluster.physicalCells\[\](.cellChildren\[\])*.cellChildren`, twice + `|` + unpinned + `|expected a list`},
	{`physicalCluster.physicalCells\[\](.cellChildren\[\])*.pinnedCellId`, unpinned},
	{`virtualClusters`, `virtualClusters has no value; write|there is no virtual cluster; at least one is needed`},
	{`virtualClusters.T(.(virtual|pinned)Cells)?`, `loads`},
	{`virtualClusters.T.(virtual|pinned)Cells\[\]`, `a (virtual|pinned) cell needs the key "\w+"`},
	{`virtualClusters.T.virtualCells\[\].cellType`, `cellType has no value; write`},
	{`virtualClusters.T.virtualCells\[\].cellNumber`, `cellNumber has no value; write|expected an integer, found the text ""`},
	{`virtualClusters.T.pinnedCells\[\].pinnedCellId`, `pinnedCellId has no value; write`},
}

const (
	twice    = `loads|(elsewhere: )?this machine has a P40 with the index \d already, at line \d+; indices|(elsewhere: )?another cell beside this one has the address "\d"; addresses`
	unpinned = `elsewhere: no physical cell has the pinnedCellId .*; (write it|known are)`
)

// outcomesOf finds the table's row for a field.
func outcomesOf(t *testing.T, path string) *regexp.Regexp {
	key := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]")
	key = regexp.MustCompile(`(cellTypes|skuTypes|gpuTypes|virtualClusters)\.[^.]+`).ReplaceAllString(key, "$1.T")
	for _, row := range emptyFields {
		if regexp.MustCompile(`^(` + row.field + `)$`).MatchString(key) {
			return regexp.MustCompile(`^(` + row.outcomes + `)`)
		}
	}
	t.Fatalf("no row for the field %s", key)
	return nil
}

// Every shape of file that HiveD publishes loads as HiveD reads it. With any one field
// emptied it loads as HiveD reads that, or what is wrong is said, and where.
func TestHivedFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "hived", "*.yaml"))
	if err != nil || len(files) < 11 {
		t.Fatal("files are missing", files, err)
	}
	for _, file := range append(files, filepath.Join(testdata, "manual.yaml")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			root, problems := document.Parse(file, src, Limits())
			if problems != nil {
				t.Fatal(problems)
			}
			c, _, problems := Parse(file, src, known)
			if problems != nil {
				t.Fatal(problems)
			}
			sameAsHived(t, root, c)
			for _, e := range empties(root) {
				path, whole := e.at.Path(), *e.at
				*e.at = *e.value
				t.Run(path+" "+[...]string{"null", "\"\"", "[]", "{}"}[e.value.Kind], func(t *testing.T) { checkEmptied(t, root, e.at, path) })
				*e.at = whole
			}
		})
	}
}

func checkEmptied(t *testing.T, root, at *document.Node, path string) {
	var b strings.Builder
	line := 0
	write(&b, root, "", at, &line)
	outcomes := outcomesOf(t, path)
	c, _, problems := Parse("f", []byte(b.String()), known)
	if (c == nil) == (len(problems) == 0) {
		t.Errorf("a cluster: %t, with %d problems", c != nil, len(problems))
	}
	if c != nil {
		if !outcomes.MatchString("loads") {
			t.Error("it loads")
		}
		sameAsHived(t, root, c)
	}
	name := regexp.MustCompile(`the cell type "[^"]+"`)
	for _, p := range problems {
		message := name.ReplaceAllString(p.Message, `the cell type "T"`)
		if p.Line != line || p.Key != path {
			message = "elsewhere: " + message
		}
		if !outcomes.MatchString(message) || p.File != "f" || p.Line < 1 || p.Key == "" {
			t.Errorf("not in the table: %s", p)
		}
	}
}

func sameAsHived(t *testing.T, root *document.Node, c *Cluster) {
	t.Helper()
	hived, ours := readHived(root.Any()), readOurs(c)
	if !reflect.DeepEqual(hived, ours) {
		t.Errorf("HiveD reads something else (-HiveD +Comb):\n%s", cmp.Diff(hived, ours))
	}
}
