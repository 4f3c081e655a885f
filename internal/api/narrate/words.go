package narrate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Exit writes how a task ended.
func Exit(e *rest.Exit) string {
	if e == nil {
		return ""
	}
	if e.Cause == model.NeverStarted && e.Code == 0 && e.Signal == 0 {
		return string(e.Cause) // it has no exit code
	}
	text := "exit " + strconv.Itoa(int(e.Code))
	if e.Signal != 0 {
		text = "signal " + strconv.Itoa(int(e.Signal))
	}
	if e.Cause != "" {
		text += " (" + string(e.Cause) + ")"
	} else if e.Message != "" && !e.Own {
		text += " (" + e.Message + ")"
	}
	return text
}

// ExitBeside writes how a task ended, next to a text that may contain its message, which is
// not repeated.
func ExitBeside(e *rest.Exit, text string) string {
	if e != nil && e.Message != "" && strings.Contains(text, e.Message) {
		bare := *e
		bare.Message = ""
		e = &bare
	}
	return Exit(e)
}

// Progress writes what a task reported, such as "step 5/20, loss 0.31".
func Progress(p *rest.TaskProgress) string {
	if p == nil {
		return ""
	}
	var parts []string
	switch {
	case p.Total > 0:
		parts = append(parts, "step "+fmt.Sprint(p.Step)+"/"+fmt.Sprint(p.Total))
	case p.Step > 0 || p.Use == nil:
		parts = append(parts, "step "+fmt.Sprint(p.Step))
	}
	if p.Loss != "" {
		parts = append(parts, "loss "+loss(p.Loss))
	}
	if p.Use != nil {
		parts = append(parts, Use(p.Use))
	}
	return strings.Join(parts, ", ")
}

// loss writes a loss with its significant digits. One that is not a number is marked: the
// training has diverged.
func loss(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return text + " (not a number: look at its log)"
	}
	return strconv.FormatFloat(f, 'g', 5, 64)
}

// Use writes the utilization of a task's devices.
func Use(u *rest.DeviceUse) string {
	return fmt.Sprintf("devices %d%% busy, %s MiB", u.Util/10, fmt.Sprint(u.MemoryMB))
}

// Devices names devices as the cluster file does: 0,1, or 0:2,0:3 where each is a part of a
// device.
func Devices(devices, parts []int32) string {
	if len(parts) != len(devices) {
		return numbers(devices)
	}
	var out []string
	for i, d := range devices {
		out = append(out, fmt.Sprintf("%d:%d", d, parts[i]))
	}
	return strings.Join(out, ",")
}

func numbers(list []int32) string {
	var out []string
	for _, n := range list {
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, ",")
}

// Short writes a duration in its two largest units, in the form that flags accept.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		d = d.Truncate(time.Millisecond)
	case d < time.Minute:
		d = d.Truncate(100 * time.Millisecond)
	case d < time.Hour:
		d = d.Truncate(time.Second)
	case d < 24*time.Hour:
		d = d.Truncate(time.Minute)
	default:
		d = d.Truncate(time.Hour)
	}
	return document.FormatDuration(d.Microseconds())
}

// Priority writes OpenPAI's class where there is one, else the number.
func Priority(p cell.Priority) string {
	if name := model.PriorityName(p); name != "" {
		return name
	}
	return fmt.Sprint(p)
}

func phase(p model.Phase, c model.EndCause) string {
	text := map[model.Phase]string{model.Succeeded: "succeeded", model.Failed: "failed", model.Stopped: "is stopped"}[p]
	if c == 0 || c == model.EndSucceeded || c == model.EndFailed || c == model.EndStopped {
		return text
	}
	return text + " (" + Cause(c) + ")"
}

// Cause writes the cause of an end as part of a sentence.
func Cause(c model.EndCause) string {
	switch c {
	case model.EndCompleted:
		return "the job has its result"
	case model.EndStopped:
		return "stopped by its user"
	case model.EndTimeLimit:
		return "its time limit is over"
	case model.EndResized:
		return "its policy gave the job another size, or paused it"
	case model.EndEarly:
		return "its policy expects no more gain"
	case model.EndRefused:
		return "a start was refused"
	case model.EndPlatform:
		return "its supervisor, node or pod was lost"
	case model.EndNeverAlive:
		return "withdrawn before any task started"
	}
	return c.String()
}

// Because writes a reason, if there is one.
func Because(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func notBefore(t model.Time) string {
	if t == 0 {
		return ""
	}
	return ", not before " + clock(t)
}

// Until writes an instant, if there is one.
func Until(t model.Time) string {
	if t == 0 {
		return ""
	}
	return " until " + clock(t)
}

func clock(t model.Time) string { return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339) }

// cut shortens a text to n bytes at a boundary of characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}

// Span is Short for a duration of the scheduler.
func Span(d model.Duration) string { return Short(time.Duration(d) * time.Microsecond) }
