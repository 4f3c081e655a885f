package server

import (
	"fmt"
	"time"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const longestExpiry = 366 * 24 * model.Hour

// expiringChange is what a change of the configuration does to ends: the present one, and its
// own.
type expiringChange struct {
	Was, Is engine.ConfigEnd // zero is none
	Latest  int64            // the version before the change, in force or not
	Same    bool             // its file is the one in force, byte for byte
}

// versionEnd is the end of a version; zero is none.
func versionEnd(v *engine.ConfigVersion) engine.ConfigEnd {
	if v.Until == 0 {
		return engine.ConfigEnd{}
	}
	return engine.ConfigEnd{Version: v.Version, Back: v.Back, Until: v.Until}
}

// Reason is the reason that is noted for a version, with its end.
func (o *expiringChange) Reason(why string) string {
	if o.Is.Version == 0 {
		return why
	}
	end := fmt.Sprintf("until %s, then version %d again", instant(o.Is.Until), o.Is.Back)
	if why == "" {
		return end
	}
	return why + " (" + end + ")"
}

// Sentences say what becomes of ends. changed is whether the change changes anything.
func (o *expiringChange) Sentences(changed bool) (out []string) {
	switch {
	case o.Is.Version > 0 && !changed && o.Was.Version == 0:
	case o.Is.Version > 0:
		out = append(out, fmt.Sprintf("the server goes back to version %d at %s, by itself and without asking, also where that stops running work then", o.Is.Back, instant(o.Is.Until)))
		if changed && o.Was.Version > 0 {
			out = append(out, fmt.Sprintf("the end of version %d at %s is dropped for that", o.Was.Version, instant(o.Was.Until)))
		}
	case o.Was.Version > 0:
		out = append(out, fmt.Sprintf("the end of version %d is dropped: the server does not go back to version %d at %s, and this configuration stays", o.Was.Version, o.Was.Back, instant(o.Was.Until)))
	}
	return out
}

// instant is a time in the form of the command line.
func instant(t model.Time) string { return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339) }

// parseExpiry reads when a configuration is to end: an instant, or a duration from now.
func parseExpiry(text string, now model.Time) (model.Time, error) {
	var at model.Time
	if err := document.Unitless(text); err != nil {
		return 0, fmt.Errorf("until %s: %w", text, err)
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		at = model.Time(t.UnixMicro())
	} else if d, ok := document.ParseDuration(text); ok && d <= int64(longestExpiry) {
		at = now.Add(model.Duration(d))
	}
	if at <= now || at > now.Add(longestExpiry) {
		return 0, fmt.Errorf("until %q: want a time to come, at most 366 days from now, such as %s, or a duration such as 7d", text, instant(now.Add(7*24*model.Hour)))
	}
	return at, nil
}

// VersionName describes a version.
func VersionName(v *engine.ConfigVersion) string {
	text := fmt.Sprintf("version %d, applied by %s on %s", v.Version, v.Author, instant(v.Time))
	if v.Reason != "" {
		text += fmt.Sprintf(" (%s)", v.Reason)
	}
	return text
}
