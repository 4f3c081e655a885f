package model

import (
	"cmp"
	"math/bits"
	"strings"
)

// By says how the gangs of a VC are told apart: by one or several of these.
type By uint8

// What gangs are told apart by.
const (
	ByUser  By = 1 << iota
	ByQueue    // Hints.Queue
	ByApp      // Hints.App
	// ByLength tells apart how long jobs of one gang declare to run, in quarters of
	// doublings, and only where they name no app. It is for View.Lines alone.
	ByLength
	ByKey // nothing: all are one party, in order of their keys
)

// Party is whose gangs are meant. What they are not told apart by is empty.
type Party struct {
	Queue string
	User  Subject
	App   string
	// Length is a class of run times, 0 where none is declared; -1 is of jobs of an app
	// or of several gangs, which belong together however long they run.
	Length int16
}

// Party returns whose a job is.
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

// Compare orders parties by queue, then user, then app.
func (p Party) Compare(o Party) int {
	return cmp.Or(strings.Compare(p.Queue, o.Queue), strings.Compare(string(p.User), string(o.User)),
		strings.Compare(p.App, o.App), cmp.Compare(p.Length, o.Length))
}

// Line is gangs of one party and one shape that wait.
type Line struct {
	Party  Party
	Leaves int32 // that each asks for; 0 where they are of several shapes
	Gangs  int   // how many they are
	// First are the first of them in order of submission; only to read. What may change
	// while they wait is left out: Delayed, Moved, Note, Progress and Sizes.Now.
	First []GangView
}
