package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/combsched/comb/internal/document"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// loans are configurations that have an end, at which the server goes back by itself. What it is to go back to is kept in the
// store before the configuration comes into force, under the number of the version that this makes; so an end holds while that
// version is the latest, and is none as soon as another one is.
type loans struct{ *Server }

const (
	maxLoan   = 366 * 24 * time.Hour
	loanLook  = time.Minute // between two looks while there is an end: the clock may be set
	loanRetry = 10 * time.Minute
)

// EndLoans goes back from configurations whose end has come, until the server closes.
func EndLoans(ctx context.Context, s *Server) {
	l := loans{s}
	for {
		timer := time.NewTimer(l.look(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.closing:
			timer.Stop()
			return
		case <-s.lent:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// look goes back if it is time, and says when to look again.
func (l loans) look(ctx context.Context) time.Duration {
	e, err := l.active(ctx)
	if err == nil && e.Version == 0 {
		return 24 * time.Hour // a change wakes it
	}
	if err == nil {
		if left := time.Duration(e.Until-l.opts.Now()) * time.Microsecond; left > 0 {
			return min(left+time.Millisecond, loanLook)
		}
		err = l.goBack(ctx, e)
	}
	if err != nil {
		l.log.Warn("the configuration has an end, and the server cannot go back: it tries again in 10 minutes", "version", e.Version, "back", e.Back, "error", err)
		return loanRetry
	}
	return time.Millisecond
}

// active is the end of the version that is in force; the zero one is none.
func (l loans) active(ctx context.Context) (engine.ConfigEnd, error) {
	_, tag, err := l.present(ctx, 0)
	if err != nil {
		return engine.ConfigEnd{}, err
	}
	v, err := versions{l.Server}.present(ctx, tag)
	if err != nil {
		return engine.ConfigEnd{}, err
	}
	ends, err := l.store.ConfigEnds(ctx)
	if i := slices.IndexFunc(ends, func(e engine.ConfigEnd) bool { return e.Version == v.Version && v.Version > 0 }); i >= 0 {
		return ends[i], err
	}
	return engine.ConfigEnd{}, err
}

// goBack applies the file of the version to which an end leads.
func (l loans) goBack(ctx context.Context, e engine.ConfigEnd) error {
	l.configMu.Lock()
	defer l.configMu.Unlock()
	if now, err := l.active(ctx); err != nil || now != e {
		return err
	}
	_, file, ok, err := l.store.ConfigFile(ctx, e.Back)
	if err != nil {
		return err
	}
	if !ok {
		l.log.Warn("the configuration stays as it is: the version to go back to is not kept any more", "version", e.Version, "back", e.Back)
		return l.store.SetConfigEnds(ctx, nil)
	}
	c, _, err := l.parseConfig(file)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("version %d was applied until %s", e.Version, instant(e.Until))
	if err := l.store.BeginConfig(ctx, engine.ConfigVersion{Time: l.opts.Now(), Author: "system", Reason: why, Restored: e.Back}, file); err != nil {
		return err
	}
	reply, err := l.do(ctx, write{}, engine.Input{Command: c.Command(sched.Meta{Subject: "system", Reason: why})})
	versions{l.Server}.end(ctx, reply.Seq, err)
	if err != nil {
		return err
	}
	if l.opts.Configured != nil {
		l.opts.Configured()
	}
	l.log.Info("the configuration has gone back", "from", e.Version, "to", e.Back, "effects", reply.Answer.Effects)
	return l.store.SetConfigEnds(ctx, nil)
}

func instant(t sched.Time) string { return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339) }

// until reads when a configuration is to end: an instant, or how long it is from now.
func (l loans) until(text string) (sched.Time, error) {
	now := l.opts.Now()
	var at sched.Time
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		at = sched.Time(t.UnixMicro())
	} else if d, ok := document.ParseDuration(text); ok && d <= maxLoan.Microseconds() {
		at = now.Add(sched.Duration(d))
	}
	if at <= now || at > now.Add(sched.Duration(maxLoan.Microseconds())) {
		return 0, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid,
			fmt.Sprintf("until %q: want a time to come, at most 366 days from now, such as %s, or a duration such as 7d", text, instant(now.Add(7*24*sched.Hour))))
	}
	return at, nil
}

// loan is what a change of the configuration does to ends: to the present one, and its own.
type loan struct {
	was, is engine.ConfigEnd // the zero one is none
	latest  int64
}

// loan says what a change would do; the version that it makes is the next one.
func (l loans) loan(ctx context.Context, until string) (out loan, err error) {
	if out.was, err = l.active(ctx); err != nil {
		return out, l.fail(err)
	}
	list, err := l.store.Configs(ctx, 0, 1)
	if err != nil {
		return out, l.fail(err)
	}
	if len(list) > 0 {
		out.latest = list[0].Version
	}
	if until == "" {
		return out, nil
	}
	out.is = engine.ConfigEnd{Version: out.latest + 1, Back: out.was.Back}
	if out.is.Until, err = l.until(until); err != nil || out.is.Back > 0 {
		return out, err
	}
	_, tag, err := l.present(ctx, 0)
	if err != nil {
		return out, err
	}
	v, err := versions{l.Server}.present(ctx, tag)
	if err != nil {
		return out, l.fail(err)
	}
	if v.Bytes == 0 {
		return out, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			"the present configuration was not made of a cluster file that is kept, so nothing could be gone back to: apply a file without until first")
	}
	out.is.Back = v.Version
	return out, nil
}

// reason is what is noted of a version: why, and until when.
func (o *loan) reason(why string) string {
	if o.is.Version == 0 {
		return why
	}
	end := fmt.Sprintf("until %s, then version %d again", instant(o.is.Until), o.is.Back)
	if why == "" {
		return end
	}
	return why + " (" + end + ")"
}

// sentences say what becomes of ends, where the change is one, or none.
func (o *loan) sentences(changed bool) (out []string) {
	switch {
	case o.is.Version > 0 && !changed && o.was.Version == 0:
	case o.is.Version > 0:
		out = append(out, fmt.Sprintf("the server goes back to version %d at %s, by itself and without asking, also where that stops running work then", o.is.Back, instant(o.is.Until)))
		if changed && o.was.Version > 0 {
			out = append(out, fmt.Sprintf("the end of version %d at %s is dropped for that", o.was.Version, instant(o.was.Until)))
		}
	case o.was.Version > 0:
		out = append(out, fmt.Sprintf("the end of version %d is dropped: the server does not go back to version %d at %s, and this configuration stays", o.was.Version, o.was.Back, instant(o.was.Until)))
	}
	return out
}

// begin keeps what is to be gone back to, before a change is made.
func (l loans) begin(ctx context.Context, o *loan, file []byte) error {
	if _, now, ok, err := l.store.ConfigFile(ctx, o.latest); o.is.Version > 0 && o.was.Version == 0 && ok && err == nil && string(now) == string(file) {
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, "this file is in force already: until would undo nothing; apply the file that is to be in force for a while")
	}
	ends, err := l.store.ConfigEnds(ctx)
	if err != nil {
		return l.fail(err)
	}
	had := len(ends)
	ends = slices.DeleteFunc(ends, func(e engine.ConfigEnd) bool { return e.Version > o.latest }) // of a change that was refused
	if o.is.Version > 0 {
		ends = append(ends, o.is)
	} else if had == len(ends) {
		return nil
	}
	if err := l.store.SetConfigEnds(ctx, ends); err != nil {
		return l.fail(err)
	}
	return nil
}

// end says what became of ends after a change was made, and forgets those that hold no more.
func (l loans) end(ctx context.Context, o *loan) ([]string, error) {
	defer l.wake()
	ctx = context.WithoutCancel(ctx)
	list, err := l.store.Configs(ctx, 0, 1)
	if err != nil {
		return nil, l.fail(err)
	}
	changed := len(list) > 0 && list[0].Version > o.latest
	var ends []engine.ConfigEnd
	switch {
	case o.is.Version > 0 && changed:
		ends = append(ends, o.is)
	case o.is.Version > 0 && o.was.Version > 0:
		ends = append(ends, engine.ConfigEnd{Version: o.was.Version, Back: o.was.Back, Until: o.is.Until})
	case o.is.Version == 0 && o.was.Version == 0:
		return nil, nil
	}
	if err := l.store.SetConfigEnds(ctx, ends); err != nil {
		return nil, l.fail(err)
	}
	return o.sentences(changed), nil
}

// wake lets EndLoans look at once.
func (l loans) wake() {
	select {
	case l.lent <- struct{}{}:
	default:
	}
}
