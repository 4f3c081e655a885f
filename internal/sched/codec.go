package sched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// eventVersion is the version that every kind is written in. A kind whose
// meaning changes gets a higher one here and a rule that reads the older.
const eventVersion = 1

// EncodeEvent returns an event's kind, version and JSON for the journal.
func EncodeEvent(e Event) (kind Kind, version int, data []byte, err error) {
	data, err = json.Marshal(e)
	return e.event(), eventVersion, data, err
}

// DecodeEvent is the inverse of EncodeEvent. An unknown kind, a newer version or
// an unknown field is an error: an old binary must not guess.
func DecodeEvent(kind Kind, version int, data []byte) (Event, error) {
	if version != eventVersion {
		return nil, fmt.Errorf("event %s has version %d, and this binary reads version %d: use a newer comb", kind, version, eventVersion)
	}
	e, err := decodeKind(kind, data)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
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
	case "StopSent":
		return decode[StopSent](data)
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
	}
	return nil, fmt.Errorf("unknown kind: it was written by a newer comb; use that")
}

// Kinds returns the zero value of every event, in the order of event.go.
func Kinds() []Event {
	return []Event{JobSubmitted{}, StopRequested{}, Configured{}, NodeCordoned{}, TaskStarted{}, TaskExited{}, TaskRefused{}, TaskUnknown{}, NodeHealth{}, LeafHealth{}, Progress{}, Notice{}, Placed{}, Reserved{}, Unreserved{}, Booked{}, StopSent{}, LazilyPreempted{}, Upgraded{}, Doomed{}, Spared{}, AttemptEnded{}, TaskRetried{}, JobCompleting{}, JobRetried{}, JobEnded{}, NodeAvoided{}, NodeSuspected{}, Noted{}, Decided{}, Quarantined{}}
}
