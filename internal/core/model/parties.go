package model

import (
	"cmp"
	"math/bits"
	"strings"
)

// By says how the gangs of a VC are grouped into parties: by one or several of these.
type By uint8

// The properties by which gangs are grouped.
const (
	ByUser  By = 1 << iota
	ByQueue    // Hints.Queue
	ByApp      // Hints.App
	// ByLength groups by declared run time, in classes of a quarter of a doubling. Jobs of an
	// app, or of several gangs, are one class. It is for View.ShapeGroups alone.
	ByLength
	ByKey // all gangs are one party, in order of their keys
)

// Party is a group of gangs. Properties by which gangs are not grouped are empty.
type Party struct {
	Queue string
	User  Subject
	App   string
	// Length is a class of declared run times, 0 if none is declared. It is -1 for jobs of an app
	// or of several gangs, which belong together however long they run.
	Length int16
}

// Party returns the party of a job.
func (b By) Party(j *Job) Party {
	var p Party
	if b&ByUser != 0 {
		p.User = j.User
	}
	if b&ByQueue != 0 {
		p.Queue = j.Hints.Queue
	}
	if b&ByApp != 0 {
		p.App = j.Hints.App
	}
	if b&ByLength != 0 {
		p.Length = lengthClass(j)
	}
	return p
}

// lengthClass is a job's Party.Length.
func lengthClass(j *Job) int16 {
	d := uint64(max(j.Hints.Duration, 0))
	switch n := bits.Len64(d); {
	case j.Hints.App != "" || len(j.Gangs) > 1:
		return -1
	case n < 3:
		return int16(d)
	default:
		return int16(n)<<2 | int16(d>>(n-3)&3)
	}
}

// Compare orders parties by queue, user, app and length.
func (p Party) Compare(o Party) int {
	return cmp.Or(strings.Compare(p.Queue, o.Queue), strings.Compare(string(p.User), string(o.User)),
		strings.Compare(p.App, o.App), cmp.Compare(p.Length, o.Length))
}

// ShapeGroup is the waiting gangs of one party and one shape.
type ShapeGroup struct {
	Party  Party
	Leaves int32 // that each asks for; 0 if they are of several shapes
	Gangs  int   // how many they are
	// First are the first of them in order of submission; only to read. Fields that may change
	// while they wait are not set: Delayed, Moved, Note, Progress and Sizes.Now.
	First []GangView
}
