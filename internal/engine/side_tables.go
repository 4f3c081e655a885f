package engine

import (
	"errors"

	"github.com/combsched/comb/internal/core/model"
)

// ErrTooMany says that a limit on the number of something is reached.
var ErrTooMany = errors.New("there are too many")

// Removed says that the files of an ended job were removed: when, and by which rule.
type Removed struct {
	Job  model.JobID
	At   model.Time
	Rule string // in words, such as "kept 30d"
}

// ConfigEnd says until when a version of the cluster file is in force, and which version follows.
type ConfigEnd struct {
	Version int64      `json:"version"`
	Back    int64      `json:"back"`
	Until   model.Time `json:"until"`
}

// ConfigVersion is a cluster file that was applied.
type ConfigVersion struct {
	Version  int64 // from 1, without gaps
	Time     model.Time
	Author   string
	Reason   string
	Tag      string // of the configuration that was made from it; "" while it is being applied
	Restored int64  // the earlier version whose file it restores; 0: none
	Bytes    int    // size of the file; 0: its file is not known

	Until model.Time // when the server goes back to Back, if this is still the latest; 0: never
	Back  int64
}
