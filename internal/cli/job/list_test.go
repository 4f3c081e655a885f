package job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

func TestSortAndSince(t *testing.T) {
	job := func(id model.JobID, name string, gpus int64, ends model.Time) rest.Job {
		j := rest.Job{Ref: name, JobStatus: rest.JobStatus{ID: id, GPUs: gpus, Submitted: model.Time(id)}}
		if ends != 0 {
			j.Outlook = &rest.JobOutlook{Ends: ends}
		}
		return j
	}
	list := []rest.Job{job(4, "d", 1, 0), job(3, "b", 2, 9), job(2, "c", 1, 5), job(1, "a", 8, 0)}
	names := func() string {
		var out []string
		for i := range list {
			out = append(out, list[i].Ref)
		}
		return strings.Join(out, "")
	}
	for by, want := range map[string]string{"name": "abcd", "gpus": "abdc", "left": "cbda", "submitted": "dbca", "user": "dbca"} {
		if Sort(list, by); names() != want {
			t.Errorf("by %s: %s, want %s", by, names(), want)
		}
	}
	page := rest.JobList{Jobs: list, Next: "1"}
	if Since(&page, 1); len(page.Jobs) != 4 || page.Next == "" {
		t.Errorf("%d jobs", len(page.Jobs))
	}
	if Since(&page, 3); len(page.Jobs) != 2 || page.Next != "" {
		t.Errorf("%d jobs, next %q", len(page.Jobs), page.Next)
	}
}

func TestNodesThatAreHeld(t *testing.T) {
	j := rest.Job{JobStatus: rest.JobStatus{Tasks: []rest.TaskStatus{{State: model.TaskRunning, Node: "n1"}, {State: model.TaskRunning, Node: "n1"},
		{State: model.TaskStarting, Node: "n2"}, {State: model.TaskFailed, Node: "n3"}, {State: model.TaskRunning, Node: "n4"}, {State: model.TaskRunning, Node: "n5"}}}}
	if got := Nodes(&j); got != "n1,n2,n4 and 1 more" {
		t.Error(got)
	}
}

// TestWatch: what has not changed is not drawn again.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	texts := []string{"one", "one", "two"}
	var drawn []string
	err := Watch(ctx, time.Microsecond, false, func() (string, error) {
		text := texts[0]
		if texts = texts[1:]; len(texts) == 0 {
			defer cancel()
			texts = []string{text}
			drawn = append(drawn, text)
		}
		return text, nil
	}, func(text string, _ error) { drawn = append(drawn, text) })
	if err != nil || strings.Join(drawn, " ") != "one two" {
		t.Errorf("%v, %v", drawn, err)
	}
}

// TestWatchGoesOn: a try that fails is told once and ends nothing, unless it is the first one.
func TestWatchGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	down := errors.New("down")
	tries := []error{nil, down, down, nil}
	var seen []string
	err := Watch(ctx, time.Microsecond, false, func() (string, error) {
		if len(tries) == 0 {
			cancel()
			return "", down
		}
		err := tries[0]
		tries = tries[1:]
		return "list", err
	}, func(text string, err error) {
		if err != nil {
			text = err.Error()
		}
		seen = append(seen, text)
	})
	if err != nil || strings.Join(seen, " ") != "list down list" {
		t.Errorf("%v, %v", seen, err)
	}
	err = Watch(context.Background(), time.Microsecond, false, func() (string, error) { return "", down }, nil)
	if !errors.Is(err, down) {
		t.Errorf("the first try: %v", err)
	}
}
