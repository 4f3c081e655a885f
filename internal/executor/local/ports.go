package local

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// portsFileName is the file of a job's ports, in the job's folder.
const portsFileName = "ports.json"

// gangLabel is the label of a port that each task of a gang has besides those that its role asks
// for: training frameworks find each other by it. It cannot be a role's label, since those are
// names.
const gangLabel = "*gang"

// given begins the label of a port that a task has although its role does not ask for it: see
// jobspec.GivenPorts.
const given = "+"

// portBlock is the ports of one label of one task.
type portBlock struct {
	Task  int32  `json:"task"`
	Label string `json:"label"`
	First int32  `json:"first"`
	Count int32  `json:"count"`
}

// asked reports whether the role asks for the block, so that the task cannot run without it.
func (b *portBlock) asked() bool { return b.Label != gangLabel && !strings.HasPrefix(b.Label, given) }

// portRegister gives every live job ports of its own. All tasks of a job get theirs at its first
// start, so that each task knows the others' from the beginning. The job keeps them in its folder
// for its next attempts. The file need not reach the disk: after a power cut no living task knows
// the old numbers.
type portRegister struct {
	mu       sync.Mutex
	min, max int32
	next     int32
	taken    map[int32]model.JobID
	jobs     map[model.JobID][]portBlock
}

// Open starts the search at a random port, so that two servers on one machine rarely try the same
// one at the same moment.
func (p *portRegister) Open(lo, hi int32) {
	p.min, p.max = lo, hi
	p.next = lo + rand.Int32N(hi-lo+1)
	p.taken, p.jobs = map[int32]model.JobID{}, map[model.JobID][]portBlock{}
}

// Adopt registers the ports of a job that may have living tasks.
func (p *portRegister) Adopt(dir string, id model.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var blocks []portBlock
	if p.jobs[id] != nil || safefile.Read(dir, portsFileName, &blocks) != nil {
		return
	}
	p.register(id, blocks)
}

func (p *portRegister) register(id model.JobID, blocks []portBlock) {
	p.jobs[id] = blocks
	for _, b := range blocks {
		if b.First < 1 || b.Count < 1 || b.First > 65535 || b.Count > 65535 {
			continue // the job's own tasks can write the file
		}
		for n := range b.Count {
			p.taken[b.First+n] = id
		}
	}
}

// Release gives the ports of a job back.
func (p *portRegister) Release(id model.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, owner := range p.taken {
		if owner == id {
			delete(p.taken, port)
		}
	}
	delete(p.jobs, id)
}

// Of returns the ports of all tasks of a job, giving some where it has none.
func (p *portRegister) Of(dir string, start *model.Start) ([]portBlock, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.jobs[start.ID]; b != nil {
		return b, nil
	}
	want := wanted(start.Job)
	if len(want) == 0 {
		return nil, nil
	}
	var kept []portBlock
	if safefile.Read(dir, portsFileName, &kept) == nil && p.reusable(kept, want) {
		p.register(start.ID, kept)
		return kept, nil
	}
	if err := p.giveAll(start.ID, want); err != nil {
		p.forget(want)
		return nil, err
	}
	want = slices.DeleteFunc(want, func(b portBlock) bool { return b.First == 0 })
	if err := safefile.Write(dir, portsFileName, want); err != nil {
		p.forget(want)
		return nil, fmt.Errorf("keep the ports: %w", err)
	}
	p.register(start.ID, want)
	return want, nil
}

// giveAll gives blocks their first ports: those that the roles ask for before all others. The
// others may get none, and ports with the label given leave half of the range free.
func (p *portRegister) giveAll(id model.JobID, blocks []portBlock) error {
	half := int(p.max-p.min+1) / 2
	for _, asked := range []bool{true, false} {
		for i := range blocks {
			b := &blocks[i]
			if b.asked() != asked || strings.HasPrefix(b.Label, given) && len(p.taken) >= half {
				continue
			}
			first, err := p.give(b.Count)
			if err != nil && asked {
				return err
			}
			if err != nil {
				continue
			}
			b.First = first
			for n := range b.Count {
				p.taken[first+n] = id
			}
		}
	}
	return nil
}

func (p *portRegister) forget(blocks []portBlock) {
	for _, b := range blocks {
		for n := range b.Count {
			delete(p.taken, b.First+n)
		}
	}
}

// wanted lists the blocks of a job without their first ports.
func wanted(j *model.Job) []portBlock {
	var want []portBlock
	var task int32
	for i := range j.Roles {
		r := &j.Roles[i]
		beside := jobspec.GivenPorts(j, r)
		for range r.Tasks {
			for _, port := range r.Launch.Ports {
				if port.Count > 0 {
					want = append(want, portBlock{Task: task, Label: port.Label, Count: port.Count})
				}
			}
			for _, label := range beside {
				want = append(want, portBlock{Task: task, Label: given + label, Count: 1})
			}
			want = append(want, portBlock{Task: task, Label: gangLabel, Count: 1})
			task++
		}
	}
	return want
}

// reusable reports whether kept blocks are what is wanted, and free. Blocks that no role asks for
// may be missing: there was no room for them.
func (p *portRegister) reusable(kept, want []portBlock) bool {
	for _, w := range want {
		if len(kept) > 0 {
			w.First = kept[0].First
		}
		switch {
		case len(kept) > 0 && kept[0] == w:
			if w.First < 1 || w.First+w.Count-1 > 65535 || !p.free(w.First, w.Count) {
				return false
			}
			kept = kept[1:]
		case w.asked():
			return false
		}
	}
	return len(kept) == 0
}

// give finds count free ports in a row.
func (p *portRegister) give(count int32) (int32, error) {
	size := p.max - p.min + 1
	if count > size {
		return 0, fmt.Errorf("%d ports in a row were asked for, the range has %d", count, size)
	}
	for range size {
		first := p.next
		if p.next++; p.next > p.max {
			p.next = p.min
		}
		if first+count-1 <= p.max && p.free(first, count) {
			p.next = first + count
			if p.next > p.max {
				p.next = p.min
			}
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d", count, p.min, p.max)
}

// free asks the register and the machine.
func (p *portRegister) free(first, count int32) bool {
	for n := range count {
		if _, ok := p.taken[first+n]; ok {
			return false
		}
	}
	for n := range count {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", first+n))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// portNumbers returns a task's ports of one label, or all that its role asks for when the label
// is allLabels.
func portNumbers(blocks []portBlock, task int32, label string) []int32 {
	var list []int32
	for _, b := range blocks {
		if b.Task == task && (label == b.Label || given+label == b.Label || label == allLabels && b.asked()) {
			for n := range b.Count {
				list = append(list, b.First+n)
			}
		}
	}
	return list
}

// portTable answers as portNumbers does, from a table: a task is told the ports of all others,
// and searching all blocks for each would be slow.
func portTable(blocks []portBlock) func(task int32, label string) []int32 {
	type key struct {
		task  int32
		label string
	}
	first := make(map[key]portBlock, len(blocks))
	for _, b := range blocks {
		first[key{b.Task, strings.TrimPrefix(b.Label, given)}] = b
	}
	return func(task int32, label string) []int32 {
		return portNumbers([]portBlock{first[key{task, label}]}, task, label)
	}
}

// Labelled returns the ports of one task of a job by label.
func (p *portRegister) Labelled(id model.JobID, task int32) map[string][]int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list map[string][]int32
	for _, b := range p.jobs[id] {
		if b.Task == task && b.asked() {
			if list == nil {
				list = map[string][]int32{}
			}
			list[b.Label] = portNumbers([]portBlock{b}, task, b.Label)
		}
	}
	return list
}

// allLabels stands for all labels that roles ask for. It cannot be a label, since those are
// names.
const allLabels = "*"
