// Package exit says what the end of a task means: what caused it, which side must act, and
// whether another try is worth it. It holds one table, which docs/exit-codes.md shows. It must
// not know what a job is.
package exit

import (
	"regexp"
	"slices"
	"strings"
)

// Class is the kind of an end: what caused it, or what another try would bring.
type Class string

// The classes; success has none.
const (
	User      Class = "user"      // the job's own doing: its program, its file, or a wish of its user
	Transient Class = "transient" // it passes by itself
	Conflict  Class = "conflict"  // jobs were in each other's way
	Permanent Class = "permanent" // another try would end alike
	Platform  Class = "platform"  // a machine or the platform failed
	Resource  Class = "resource"  // it needed more than it had asked for
)

// Classes are all of them.
func Classes() []Class { return []Class{User, Transient, Conflict, Permanent, Platform, Resource} }

// Actor is the side that must act.
type Actor string

// The sides.
const (
	None          Actor = "none"
	Owner         Actor = "you" // the job's user
	Administrator Actor = "administrator"
)

// Retry says whether a job runs again after an end.
type Retry string

// The reactions, as FrameworkController has them.
const (
	Never   Retry = "never"
	Counted Retry = "counted" // as often as the job file allows
	Always  Retry = "always"  // without counting against the job file's number
	Delayed Retry = "delayed" // as always, after a random delay
)

// Entry is one line of the table.
type Entry struct {
	Code   int32  // what OpenPAI's clients get; 0 where it is the program's own
	Phrase string // what FrameworkController or OpenPAI call it
	Class  Class
	Actor  Actor
	Retry  Retry
	Means  string // one sentence
	Next   string // what to do about it
	When   string // how the platform recognizes it, in words
	match  fits
}

// Foreign reports whether Comb never gives this end: FrameworkController or OpenPAI do.
func (e Entry) Foreign() bool { return e.match == nil }

// Observed is what is known of an end. Causes are named as the core names them.
type Observed struct {
	Code        int32   // exit code; 128+signal when a signal ended it
	Signal      int32   // the signal, 0 if none
	Cause       string  // the platform's reason for a task's end, "" is the task's own doing
	End         string  // why its attempt, or its job, ended
	EndedItself bool    // the task had ended by itself before any stop reached it
	LastLine    string  // the last line of its log
	Rule        *Ruling // the rule of the cluster file that fits it; nil is none
}

// Verdict is what an end means.
type Verdict struct {
	Code   int32
	Phrase string
	Class  Class
	Actor  Actor
	Retry  Retry
	Means  string
	Next   string
	Budget int32 // tries that do not count; 0 is no limit
}

// Uncounted reports whether one more try does not count, after so many that did not.
func (v Verdict) Uncounted(tries int32) bool {
	return (v.Retry == Always || v.Retry == Delayed) && (v.Budget == 0 || tries < v.Budget)
}

// Final is the side that must act, and what is to be done, once no other try follows because the
// job has ended. What a rule of the cluster file says to do stays.
func Final(a Actor, r Retry, next string) (Actor, Retry, string) {
	if r != Never && strings.HasPrefix(next, again) {
		if next = "it is not tried again: tell an administrator, then submit the job again"; a != Administrator {
			a, next = Owner, "it is not tried again: read its log (comb job logs) and submit the job again"
		}
	}
	return a, Never, next
}

// Judge says what an end means: the first line of the table that fits.
func Judge(s Observed) Verdict {
	for _, e := range table {
		if e.match != nil && e.match(&s) {
			return e.verdict(&s)
		}
	}
	return fallback.verdict(&s)
}

func (e Entry) verdict(s *Observed) Verdict {
	if e.Phrase == "ExitRule" {
		return s.Rule.ruled(s)
	}
	v := Verdict{Code: e.Code, Phrase: e.Phrase, Class: e.Class, Actor: e.Actor, Retry: e.Retry, Means: e.Means, Next: e.Next}
	if v.Code == 0 {
		v.Code = s.Code
	}
	return v
}

// Table is the whole table, in the order in which it is read.
func Table() []Entry { return append(slices.Clone(table), fallback) }

// fits reports whether a line is about an end.
type fits func(*Observed) bool

// ended fits attempts or jobs that ended for one of these causes.
func ended(causes ...string) fits {
	return func(s *Observed) bool { return slices.Contains(causes, s.End) }
}

// endedByPlatform fits tasks that the platform ended for one of these causes.
func endedByPlatform(causes ...string) fits {
	return func(s *Observed) bool { return slices.Contains(causes, s.Cause) }
}

// code fits programs that exited with it.
func code(n int32) fits {
	return func(s *Observed) bool { return s.Signal == 0 && s.Code == n }
}

// signal fits programs that it ended, or whose shell exited with its code.
func signal(n int32) fits {
	return func(s *Observed) bool { return s.Signal == n || s.Code == 128+n }
}

// says fits programs that failed with such a last line.
func says(pattern string) fits {
	r := regexp.MustCompile("(?i)" + pattern)
	return func(s *Observed) bool { return s.Cause == "" && s.Code != 0 && r.MatchString(s.LastLine) }
}

// both fits what two matchers fit.
func both(a, b fits) fits {
	return func(s *Observed) bool { return a(s) && b(s) }
}
