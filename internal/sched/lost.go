package sched

import "fmt"

// Given reports whether an attempt's number was given out: that of its job, and, while the job
// has not ended, its own. One that is only promised was not; of a job alone ask for attempt 0.
func (s *State) Given(a AttemptID) bool {
	if a.Job <= 0 || a.Job >= s.nextJob {
		return false
	}
	j := s.find(a.Job)
	if j == nil || a.N == 0 {
		return true
	}
	return a.Gang >= 0 && int(a.Gang) < len(j.gangs) && a.N <= j.gangs[a.Gang].n
}

// NextJob is the number that the next job gets.
func (s *State) NextJob() JobID { return s.nextJob }

// Forgo returns what closes the gap that events First to Last of lost leave: it is applied behind
// the present state, record by record. Seen are attempts of which something was found; whatever
// they and NextJob say is taken, no number up to theirs is given again.
func (s *State) Forgo(lost Lost, seen []AttemptID) []Record {
	var events []Event
	lost.NextJob = max(lost.NextJob, s.nextJob)
	last := map[AttemptID]int32{} // by gang
	for _, a := range seen {
		lost.NextJob = max(lost.NextJob, a.Job+1)
		gang := AttemptID{Job: a.Job, Gang: a.Gang}
		if s.find(a.Job) != nil && !s.Given(a) && a.N > last[gang] {
			last[gang] = a.N
		}
	}
	for _, j := range s.Jobs() {
		for g := range s.find(j.ID).gangs {
			gang := AttemptID{Job: j.ID, Gang: int32(g)}
			if n := last[gang]; n > 0 {
				events = s.breakPromise(events, gang)
				lost.Attempts = append(lost.Attempts, AttemptID{Job: j.ID, Gang: int32(g), N: n})
			}
		}
	}
	for lost.First > 0 && uint64(len(events)) < lost.Last-lost.First {
		events = append(events, Lost{First: lost.First, Last: lost.Last})
	}
	events = append(events, lost)
	records := make([]Record, len(events))
	for i, e := range events {
		records[i] = Record{Seq: s.seq + 1 + uint64(i), Time: s.now, Event: e}
	}
	return records
}

// breakPromise takes back the cells that are promised to a gang: the promise has the number of an
// attempt that was started.
func (s *State) breakPromise(events []Event, gang AttemptID) []Event {
	g := &s.find(gang.Job).gangs[gang.Gang]
	for _, at := range []int32{g.attempt, g.next} {
		if at != none && s.attempts[at].state == AttemptReserving {
			events = append(events, Unreserved{Attempt: s.attempts[at].id, Reason: "its start was lost with the end of the journal"})
		}
	}
	return events
}

func (s *State) applyLost(e Lost) {
	s.nextJob = max(s.nextJob, e.NextJob)
	for _, a := range e.Attempts {
		j := s.find(a.Job)
		if j == nil || a.Gang < 0 || int(a.Gang) >= len(j.gangs) {
			panic(fmt.Sprintf("sched: %v, which was seen, is no attempt of a known gang", a))
		}
		j.gangs[a.Gang].n = max(j.gangs[a.Gang].n, a.N)
	}
}
