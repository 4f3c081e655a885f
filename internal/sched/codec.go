package sched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/combsched/comb/internal/cell"
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
	case version == kind.version():
		return decodeKind(kind, data)
	case version == 1 && kind == (JobSubmitted{}).event():
		return decodeSubmitted1(data)
	}
	return nil, fmt.Errorf("it has version %d, and this binary reads versions up to %d: use a newer comb", version, kind.version())
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

// decodeKind decodes inputs: commands that were accepted and facts.
func decodeKind(kind Kind, data []byte) (Event, error) {
	switch kind {
	case "JobSubmitted":
		return decode[JobSubmitted](data)
	case "StopRequested":
		return decode[StopRequested](data)
	case "JobHeld":
		return decode[JobHeld](data)
	case "JobRequeued":
		return decode[JobRequeued](data)
	case "JobUpdated":
		return decode[JobUpdated](data)
	case "Configured":
		return decode[Configured](data)
	case "NodeCordoned":
		return decode[NodeCordoned](data)
	case "TaskStarted":
		return decode[TaskStarted](data)
	case "TaskExited":
		return decode[TaskExited](data)
	case "TaskRefused":
		return decode[TaskRefused](data)
	case "TaskUnknown":
		return decode[TaskUnknown](data)
	case "NodeHealth":
		return decode[NodeHealth](data)
	case "LeafHealth":
		return decode[LeafHealth](data)
	case "Progress":
		return decode[Progress](data)
	case "Notice":
		return decode[Notice](data)
	}
	return decodeDecision(kind, data)
}

// decodeDecision decodes the rest.
func decodeDecision(kind Kind, data []byte) (Event, error) {
	switch kind {
	case "Placed":
		return decode[Placed](data)
	case "Reserved":
		return decode[Reserved](data)
	case "Unreserved":
		return decode[Unreserved](data)
	case "Booked":
		return decode[Booked](data)
	case "Sized":
		return decode[Sized](data)
	case "StopSent":
		return decode[StopSent](data)
	case "Joined":
		return decode[Joined](data)
	case "Rotated":
		return decode[Rotated](data)
	case "LazilyPreempted":
		return decode[LazilyPreempted](data)
	case "Upgraded":
		return decode[Upgraded](data)
	case "Doomed":
		return decode[Doomed](data)
	case "Spared":
		return decode[Spared](data)
	case "AttemptEnded":
		return decode[AttemptEnded](data)
	case "TaskRetried":
		return decode[TaskRetried](data)
	case "JobCompleting":
		return decode[JobCompleting](data)
	case "JobRetried":
		return decode[JobRetried](data)
	case "JobEnded":
		return decode[JobEnded](data)
	case "NodeAvoided":
		return decode[NodeAvoided](data)
	case "NodeSuspected":
		return decode[NodeSuspected](data)
	case "Noted":
		return decode[Noted](data)
	case "Decided":
		return decode[Decided](data)
	case "Quarantined":
		return decode[Quarantined](data)
	case "PolicyFailed":
		return decode[PolicyFailed](data)
	case "Lost":
		return decode[Lost](data)
	}
	return nil, fmt.Errorf("unknown kind: it was written by a newer comb; use that")
}

// Kinds returns the zero value of every event, in the order of event.go.
func Kinds() []Event {
	return []Event{JobSubmitted{}, StopRequested{}, JobHeld{}, JobRequeued{}, JobUpdated{}, Configured{}, NodeCordoned{}, TaskStarted{}, TaskExited{}, TaskRefused{}, TaskUnknown{}, NodeHealth{}, LeafHealth{}, Progress{}, Notice{}, Placed{}, Reserved{}, Unreserved{}, Booked{}, Sized{}, StopSent{}, Joined{}, Rotated{}, LazilyPreempted{}, Upgraded{}, Doomed{}, Spared{}, AttemptEnded{}, TaskRetried{}, JobCompleting{}, JobRetried{}, JobEnded{}, NodeAvoided{}, NodeSuspected{}, Noted{}, Decided{}, Quarantined{}, PolicyFailed{}, Lost{}}
}
