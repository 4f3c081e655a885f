package model

import "fmt"

// AttemptState is the state of an attempt or a reservation. Its text is what journals and
// interfaces hold.
type AttemptState int8

// Attempt states. A reservation is not an attempt yet.
const (
	AttemptReserving AttemptState = 1 + iota // a promise: it waits for its victims to end
	AttemptStarting
	AttemptRunning
	AttemptSuspended
	AttemptStopping
	AttemptUnknown
	AttemptOver
)

// String returns the state's name; "" for none.
func (s AttemptState) String() string {
	switch s {
	case AttemptReserving:
		return "Reserving"
	case AttemptStarting:
		return "Starting"
	case AttemptRunning:
		return "Running"
	case AttemptSuspended:
		return "Suspended"
	case AttemptStopping:
		return "Stopping"
	case AttemptUnknown:
		return "Unknown"
	case AttemptOver:
		return "Ended"
	}
	return ""
}

// MarshalText implements encoding.TextMarshaler.
func (s AttemptState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *AttemptState) UnmarshalText(text []byte) (err error) {
	*s, err = named[AttemptState](text, "state of an attempt")
	return err
}

// TaskState is one task's state as users see it; its text is what journals and
// interfaces hold.
type TaskState int8

// Task states.
const (
	TaskWaiting TaskState = 1 + iota
	TaskStarting
	TaskRunning
	TaskSuspended // other gangs have their turn on its leaves; never stored
	TaskStopping
	TaskIsUnknown
	TaskSucceeded
	TaskFailed
	TaskEnded // stopped or preempted, neither good nor bad
)

// String returns the state's name; "" for none.
func (s TaskState) String() string {
	switch s {
	case TaskWaiting:
		return "Waiting"
	case TaskStarting:
		return "Starting"
	case TaskRunning:
		return "Running"
	case TaskSuspended:
		return "Suspended"
	case TaskStopping:
		return "Stopping"
	case TaskIsUnknown:
		return "Unknown"
	case TaskSucceeded:
		return "Succeeded"
	case TaskFailed:
		return "Failed"
	case TaskEnded:
		return "Ended"
	}
	return ""
}

// MarshalText implements encoding.TextMarshaler.
func (s TaskState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *TaskState) UnmarshalText(text []byte) (err error) {
	*s, err = named[TaskState](text, "state of a task")
	return err
}

// named returns the value of a name; no name is 0. Values are numbered from 1 without
// a gap.
func named[T interface {
	~int8
	String() string
}](text []byte, what string) (T, error) {
	if len(text) == 0 {
		return 0, nil
	}
	for v := T(1); v.String() != ""; v++ {
		if v.String() == string(text) {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%q is no %s", text, what)
}

// EndCause says why an attempt ended, or is being ended; 0 is not yet. Its text is what
// journals and interfaces hold.
type EndCause int8

// The causes of an attempt's end.
const (
	EndSucceeded  EndCause = 1 + iota
	EndFailed              // its job's completion policy says so
	EndCompleted           // its job's attempt completed, so its other gangs are stopped
	EndPreempted           // no retry counted
	EndMigrated            // it runs again elsewhere; no retry counted
	EndResized             // its policy gave its job another size, or paused it; no retry counted
	EndStopped             // by its user
	EndTimeLimit           // final
	EndEarly               // its policy saw no further use in it; final
	EndRefused             // a start was refused; no retry counted
	EndPlatform            // supervisor, node or pod lost; no retry counted
	EndNeverAlive          // stopped before any task started
	EndRequeued            // a user wants it to wait again; no retry counted
	EndDrained             // its node is drained; no retry counted
)

// Resumes reports whether an attempt that is stopped for this cause runs again later, from
// its checkpoint if it has one, without a retry counted.
func (c EndCause) Resumes() bool {
	return c == EndPreempted || c == EndMigrated || c == EndResized || c == EndRequeued || c == EndDrained
}

// String returns the cause in words; "" for none.
func (c EndCause) String() string {
	switch c {
	case EndSucceeded:
		return "succeeded"
	case EndFailed:
		return "failed"
	case EndCompleted:
		return "completed"
	case EndPreempted:
		return "preempted"
	case EndMigrated:
		return "migrated"
	case EndResized:
		return "resized"
	case EndStopped:
		return "stopped"
	case EndTimeLimit:
		return "time limit"
	case EndEarly:
		return "early"
	case EndRefused:
		return "refused"
	case EndPlatform:
		return "platform"
	case EndNeverAlive:
		return "withdrawn"
	case EndRequeued:
		return "requeued"
	case EndDrained:
		return "drained"
	}
	return ""
}

// MarshalText implements encoding.TextMarshaler.
func (c EndCause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *EndCause) UnmarshalText(text []byte) (err error) {
	*c, err = named[EndCause](text, "cause of an attempt's end")
	return err
}
