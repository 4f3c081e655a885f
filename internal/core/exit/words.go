package exit

import "fmt"

// Words says how a task of a role ended without success: by itself, or by the platform for a
// cause.
func Words(role string, index int32, s Observed) string {
	text := fmt.Sprintf("task %s-%d failed with exit code %d", role, index, s.Code)
	switch {
	case s.Signal != 0:
		text = fmt.Sprintf("task %s-%d was ended by signal %d", role, index, s.Signal)
	case s.Code == 0 && s.Cause != "":
		text = fmt.Sprintf("task %s-%d ended: %s", role, index, s.Cause)
	}
	if s.LastLine != "" {
		text += ": " + s.LastLine
	}
	return text
}
