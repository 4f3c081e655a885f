package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// keptTrials bounds how many ended trials a note holds; the oldest are forgotten.
const keptTrials = 500

// endedTrial is a trial that ended, in a note about the VC.
type endedTrial struct {
	App string  `json:"app"`
	At  []int64 `json:"at"`
}

// readEnded reads a note about a VC: by app, the losses at the rungs.
func readEnded(note []byte) map[string]rungs {
	var list []endedTrial
	if len(note) == 0 || json.Unmarshal(note, &list) != nil {
		return nil
	}
	out := map[string]rungs{}
	for _, t := range list {
		r := out[t.App]
		r.add(t.At)
		out[t.App] = r
	}
	return out
}

// readRungs reads a note about a trial, its losses at the rungs that it reached, such as
// [500000000,250000000]; nil where that is no such note.
func readRungs(note []byte) []int64 {
	if len(note) < 2 || note[0] != '[' || note[len(note)-1] != ']' {
		return nil
	}
	rest, at := note[1:len(note)-1], make([]int64, 0, 8)
	for len(rest) > 0 {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte(","))
		n, err := strconv.ParseInt(string(part), 10, 64)
		if err != nil {
			return nil
		}
		at = append(at, n)
	}
	return at
}

// studyMemory is memory that one study leaves to the next, maybe of another VC.
type studyMemory struct {
	past   map[cell.VCName]parsedNote
	trials []trial
}

// parsedNote is a note about a VC, as it was read last, and what it says.
type parsedNote struct {
	note  []byte
	ended map[string]rungs
}

// ended is readEnded, cached by VC, as these notes seldom change.
func (m *studyMemory) ended(vc cell.VCName, note []byte) map[string]rungs {
	p, ok := m.past[vc]
	if !ok || !bytes.Equal(note, p.note) {
		if m.past == nil || len(m.past) > mostPasts {
			m.past = map[cell.VCName]parsedNote{}
		}
		p = parsedNote{bytes.Clone(note), readEnded(note)}
		m.past[vc] = p
	}
	return p.ended
}

// mostPasts bounds for how many VCs that is cached.
const mostPasts = 64

// trial returns memory for one more trial; those before are not moved.
func (m *studyMemory) trial() *trial {
	if len(m.trials) == cap(m.trials) {
		m.trials = make([]trial, 0, max(2*cap(m.trials), 64))
	}
	m.trials = m.trials[:len(m.trials)+1]
	return &m.trials[len(m.trials)-1]
}

// reached is how many rungs a trial has reached with so many steps of all.
func (p *hypersched) reached(step, total int64) int {
	n, part := 0, int64(1)
	for range p.rungs {
		part *= p.rf
		if step >= (total+part-1)/part {
			n++
		}
	}
	return n
}

// Watch implements model.ProgressWatcher: losses are recorded at rungs.
func (p *hypersched) Watch(g *model.GangView) (note []byte, stop string) {
	r := g.Progress
	if d, ok := lastDeadline(g); ok && p.end && r.At > d {
		return nil, fmt.Sprintf("the deadline of its experiment has passed; its loss is %s", amount(billionths(r.Loss)))
	}
	total := max(r.Total, g.Hints.Iterations)
	if r.Loss == "" || r.Step <= 0 || total <= 0 {
		return nil, ""
	}
	at := readRungs(g.Note)
	n := p.reached(r.Step, total)
	if n <= len(at) {
		return nil, ""
	}
	for len(at) < n {
		at = append(at, billionths(r.Loss))
	}
	return encodeNote(at), ""
}

// Learn implements model.Learner: what a trial recorded outlives it.
func (p *hypersched) Learn(note []byte, g *model.GangView) []byte {
	at := readRungs(g.Note)
	if g.Hints.App == "" || len(at) == 0 || g.Ref.Gang != 0 {
		return nil
	}
	var list []endedTrial
	if len(note) > 0 && json.Unmarshal(note, &list) != nil {
		list = nil
	}
	list = append(list, endedTrial{g.Hints.App, at})
	return encodeNote(list[max(len(list)-keptTrials, 0):])
}

// encodeNote writes a note that is read again by its policy.
func encodeNote(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("policy: a note of numbers and texts cannot be written: %v", err))
	}
	return data
}

// noLoss is the loss of a trial that reported none.
const noLoss = math.MaxInt64
