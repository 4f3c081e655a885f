package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/combsched/comb/internal/core/cell"
)

// version is what a kind is written in. A kind whose meaning changes gets a
// higher one here and a rule that reads the older.
func (k Kind) version() int {
	if k == (JobSubmitted{}).event() {
		return 2 // 1: a role named one SKU or any, not a set
	}
	return 1
}

// EncodeEvent returns an event's kind, version and JSON for the journal.
func EncodeEvent(e Event) (kind Kind, version int, data []byte, err error) {
	data, err = json.Marshal(e)
	return e.event(), e.event().version(), data, err
}

// DecodeEvent is the inverse of EncodeEvent. An unknown kind, a newer version or
// an unknown field is an error: an old binary must not guess.
func DecodeEvent(kind Kind, version int, data []byte) (Event, error) {
	e, err := decodeVersion(kind, version, data)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
	}
	return e, nil
}

func decodeVersion(kind Kind, version int, data []byte) (Event, error) {
	switch {
	case version == kind.version() && decoders[kind] != nil:
		return decoders[kind](data)
	case version == kind.version():
		return nil, fmt.Errorf("unknown kind: it was written by a newer comb; use that")
	case version == 1 && kind == (JobSubmitted{}).event():
		return decodeSubmitted1(data)
	}
	return nil, fmt.Errorf("it has version %d, and this binary reads versions up to %d: use a newer comb", version,
		kind.version())
}

// submitted1 is version 1 of JobSubmitted.
type submitted1 struct {
	ID  JobID `json:"id"`
	Job *struct {
		Job
		Roles []role1 `json:"roles"`
	} `json:"job"`
	Meta Meta `json:"meta"`
}

// role1 is a role that names one SKU, or none for any.
type role1 struct {
	Role
	SKU cell.TypeName `json:"sku"`
}

func (submitted1) event() Kind { return JobSubmitted{}.event() }

func decodeSubmitted1(data []byte) (Event, error) {
	old, err := decode[submitted1](data)
	if err != nil {
		return nil, err
	}
	o := old.(submitted1)
	e := JobSubmitted{ID: o.ID, Meta: o.Meta}
	if o.Job == nil {
		return e, nil
	}
	e.Job = &o.Job.Job
	for _, r := range o.Job.Roles {
		if r.SKU != "" {
			r.Role.SKUs = []cell.TypeName{r.SKU}
		}
		e.Job.Roles = append(e.Job.Roles, r.Role)
	}
	return e, nil
}

func decode[E Event](data []byte) (Event, error) {
	var e E
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the event")
	}
	return e, nil
}

// decoders are of inputs, which are commands that were accepted and facts, and of decisions.
var decoders = map[Kind]func([]byte) (Event, error){
	"JobSubmitted":    decode[JobSubmitted],
	"StopRequested":   decode[StopRequested],
	"JobHeld":         decode[JobHeld],
	"JobRequeued":     decode[JobRequeued],
	"JobUpdated":      decode[JobUpdated],
	"Configured":      decode[Configured],
	"NodeCordoned":    decode[NodeCordoned],
	"TaskStarted":     decode[TaskStarted],
	"TaskExited":      decode[TaskExited],
	"TaskRefused":     decode[TaskRefused],
	"TaskUnknown":     decode[TaskUnknown],
	"NodeHealth":      decode[NodeHealth],
	"LeafHealth":      decode[LeafHealth],
	"Progress":        decode[Progress],
	"Notice":          decode[Notice],
	"Foretold":        decode[Foretold],
	"Placed":          decode[Placed],
	"Reserved":        decode[Reserved],
	"Unreserved":      decode[Unreserved],
	"Booked":          decode[Booked],
	"Sized":           decode[Sized],
	"StopSent":        decode[StopSent],
	"Joined":          decode[Joined],
	"Rotated":         decode[Rotated],
	"LazilyPreempted": decode[LazilyPreempted],
	"Upgraded":        decode[Upgraded],
	"Doomed":          decode[Doomed],
	"Spared":          decode[Spared],
	"AttemptEnded":    decode[AttemptEnded],
	"TaskRetried":     decode[TaskRetried],
	"JobCompleting":   decode[JobCompleting],
	"JobRetried":      decode[JobRetried],
	"JobEnded":        decode[JobEnded],
	"NodeAvoided":     decode[NodeAvoided],
	"NodeSuspected":   decode[NodeSuspected],
	"Noted":           decode[Noted],
	"Decided":         decode[Decided],
	"Quarantined":     decode[Quarantined],
	"PolicyFailed":    decode[PolicyFailed],
	"Lost":            decode[Lost],
}

// Kinds returns the zero value of every event, in the order of event.go.
func Kinds() []Event {
	return []Event{JobSubmitted{}, StopRequested{}, JobHeld{}, JobRequeued{}, JobUpdated{}, Configured{}, NodeCordoned{}, TaskStarted{}, TaskExited{}, TaskRefused{}, TaskUnknown{}, NodeHealth{}, LeafHealth{}, Progress{}, Notice{}, Foretold{}, Placed{}, Reserved{}, Unreserved{}, Booked{}, Sized{}, StopSent{}, Joined{}, Rotated{}, LazilyPreempted{}, Upgraded{}, Doomed{}, Spared{}, AttemptEnded{}, TaskRetried{}, JobCompleting{}, JobRetried{}, JobEnded{}, NodeAvoided{}, NodeSuspected{}, Noted{}, Decided{}, Quarantined{}, PolicyFailed{}, Lost{}}
}
