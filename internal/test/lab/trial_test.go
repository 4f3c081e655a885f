package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The test's own binary is also the task of elastic jobs: a training whose members come
// and go.
const (
	trialDir   = "LAB_TRIAL_DIR"   // set: be a member and keep books in this folder
	trialSteps = "LAB_TRIAL_STEPS" // of all members together
	trialLoss  = "LAB_TRIAL_LOSS"  // that it reports at every step

	// trialHold is a file of that folder: while it is there no trial goes beyond the step in it.
	trialHold = "hold"
)

const (
	trialTick  = 20 * time.Millisecond  // of a step of each member
	trialLeave = 300 * time.Millisecond // that it takes to leave
)

// beTrial is one run of one member. Locks on its place in the job and on its GPU tell of a
// second owner. The first member trains for all: it reads who is there, makes a step for each,
// reports steps and loss by the documented file, and saves its steps when it is told to stop.
func beTrial(dir string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	name, attempt, me := os.Getenv("PAI_JOB_NAME"), os.Getenv("COMB_TASK"), os.Getenv("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX")
	defer lock(dir, "member "+name+" "+me, attempt).Close()
	for d := range strings.SplitSeq(devices(), ",") {
		defer lock(dir, "gpu "+d, attempt).Close()
	}
	write(dir, "runs", fmt.Sprintf("%s/%s %s %d", name, me, attempt, os.Getpid()))
	if me != "0" {
		<-stop
		time.Sleep(trialLeave) // it takes its time
		return 128 + int(syscall.SIGTERM)
	}
	t, err := openTrial()
	if err != nil {
		write(dir, "bad", err.Error())
		return 1
	}
	write(dir, "began", fmt.Sprintf("%s %d", name, t.step))
	return t.train(dir, stop)
}

// trial is what the first member knows.
type trial struct {
	name        string
	step, total int
	loss        json.Number
	saved       string // file of its steps
	size        int    // members that it saw last
}

func openTrial() (*trial, error) {
	t := &trial{name: os.Getenv("PAI_JOB_NAME"), loss: json.Number(os.Getenv(trialLoss)), saved: filepath.Join(os.Getenv("COMB_CHECKPOINT_DIR"), "steps")}
	var err error
	if t.total, err = strconv.Atoi(os.Getenv(trialSteps)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(t.saved)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		t.step, err = strconv.Atoi(string(text))
	}
	return t, err
}

func (t *trial) train(dir string, stop <-chan os.Signal) int {
	for tick := time.NewTicker(trialTick); t.step < t.total; {
		select {
		case <-stop:
			time.Sleep(trialLeave) // it takes its time
			if err := errors.Join(os.WriteFile(t.saved, []byte(strconv.Itoa(t.step)), 0o600), t.report(true)); err != nil {
				write(dir, "bad", err.Error())
				return 1
			}
			write(dir, "paused", fmt.Sprintf("%s %d", t.name, t.step))
			return 128 + int(syscall.SIGTERM)
		case <-tick.C:
		}
		now, err := t.members()
		if err == nil {
			last := t.total
			if text, held := os.ReadFile(filepath.Join(dir, trialHold)); held == nil {
				last, err = strconv.Atoi(string(text))
			}
			t.step = max(t.step, min(t.step+now, last))
		}
		if err == nil {
			err = t.report(false)
		}
		if err != nil {
			write(dir, "bad", err.Error())
			return 1
		}
		if now != t.size {
			t.size = now
			write(dir, "sizes", fmt.Sprintf("%s %d", t.name, now))
		}
	}
	write(dir, "done", fmt.Sprintf("%s %d", t.name, t.step))
	return 0
}

// members counts who is there, by the file that says it.
func (t *trial) members() (int, error) {
	text, err := os.ReadFile(os.Getenv("COMB_MEMBERS_FILE"))
	if err != nil {
		return 0, err
	}
	var file struct {
		Members []struct {
			Index   int  `json:"index"`
			Leaving bool `json:"leaving"`
		} `json:"members"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return 0, err
	}
	n := 1 // itself, also before anybody wrote that it is there
	for _, m := range file.Members {
		if m.Index > 0 && !m.Leaving {
			n++
		}
	}
	return n, nil
}

// report appends a line of progress.
func (t *trial) report(saved bool) error {
	line, err := json.Marshal(map[string]any{"step": t.step, "total": t.total, "loss": t.loss, "checkpoint": saved})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(os.Getenv("COMB_PROGRESS_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
