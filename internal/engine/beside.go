package engine

import (
	"errors"

	"github.com/combsched/comb/internal/core/model"
)

// ErrTooMany says that there are as many of something as there may be.
var ErrTooMany = errors.New("there are too many")

// Removed says that what an ended job left on the disk was removed: when, and by which rule.
type Removed struct {
	Job  model.JobID
	At   model.Time
	Rule string // in words, such as "kept 30d"
}

// ConfigEnd says until when a version of the cluster file is in force, and which version is then.
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
	Tag      string // of the configuration that was made of it; "" while it is being applied
	Restored int64  // the version whose file it brings back; 0: none
	Bytes    int    // of the file; 0: it was not made of one that is kept

	Until model.Time // when the server goes back to the version Back by itself, as long as this one is the latest; 0: never
	Back  int64
}
