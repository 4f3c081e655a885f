package server

import (
	"reflect"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

func eventListType() reflect.Type { return reflect.TypeFor[rest.EventList]() }

// wireEvent is a record in the API: it has the encoding of the journal.
func wireEvent(r model.Record) (rest.Event, error) {
	kind, version, data, err := model.EncodeEvent(r.Event)
	if err != nil {
		return rest.Event{}, err
	}
	return rest.Event{Seq: r.Seq, Time: r.Time, Kind: kind, Version: version, Job: engine.JobOf(r.Event), Data: data}, nil
}
