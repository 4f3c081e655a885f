// Package script is the scenario language. Each line is a command, and for each the full
// reaction of the real engine, core and policies on simulated machines is printed. It serves
// tests, `comb script`, and bug reports. It must not decide anything and must not reach into
// the core: it gives commands and faults, and prints records.
package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// ErrAssert says that an assert of the script did not hold. The transcript tells which.
var ErrAssert = errors.New("an assert of the script failed")

// Run runs a script or a transcript, and writes its transcript to w. An error names the
// script and the line. An error that wraps ErrAssert comes after the whole script ran.
func Run(ctx context.Context, w io.Writer, name string, src []byte) error {
	stanzas, err := parse(src)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s := New()
	s.ctx = ctx
	s.dir = filepath.Dir(name)
	defer s.Close()
	for i, st := range stanzas {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := s.stanza(w, st); err != nil {
			return fmt.Errorf("%s:%w", name, err)
		}
	}
	if s.failed > 0 {
		return fmt.Errorf("%s: %w (%d)", name, ErrAssert, s.failed)
	}
	return nil
}

// stanza prints a stanza as written, runs its commands, and prints the reaction.
func (s *Session) stanza(w io.Writer, st stanza) error {
	var b bytes.Buffer
	for _, line := range st.text {
		b.WriteString(line + "\n")
	}
	if len(st.commands) > 0 {
		b.WriteString("----\n")
	}
	var failed error
	for _, c := range st.commands {
		out, err := s.run(c)
		b.WriteString(out)
		if s.ctx.Err() != nil {
			err = s.ctx.Err() // the errors that follow from it do not matter
		}
		if err != nil {
			failed = fmt.Errorf("%d: %w", c.line, err)
			break
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	return failed
}

// Do runs one command line, with its block or "", and returns the reaction. An error says
// that the line is wrong, or that the engine or the simulated machines found a violation.
func (s *Session) Do(line, block string) (string, error) {
	a, err := parseArgs(line)
	if err != nil {
		return "", err
	}
	return s.run(command{args: a, block: block})
}

// Failed returns how many asserts have failed.
func (s *Session) Failed() int { return s.failed }

// handler runs one command. Its text is printed before the reaction.
type handler struct {
	name string
	run  func(*Session, command) (string, error)
}

// handlers are the commands of the language, sorted by name.
func handlers() []handler {
	return []handler{
		{"assert", (*Session).doAssert},
		{"at", (*Session).doAt},
		{"cluster", (*Session).doCluster},
		{"crash", (*Session).doCrash},
		{"disk", (*Session).doDisk},
		{"dryrun", (*Session).doDryRun},
		{"exit", (*Session).doExit},
		{"found", (*Session).doFound},
		{"heal", (*Session).doHeal},
		{"hold", doJobCommand},
		{"leaf", (*Session).doLeaf},
		{"lose", (*Session).doLose},
		{"node", (*Session).doNode},
		{"plan", (*Session).doPlan},
		{"progress", (*Session).doProgress},
		{"reconfigure", (*Session).doCluster},
		{"refuse", (*Session).doRefuse},
		{"release", doJobCommand},
		{"requeue", doJobCommand},
		{"restart", (*Session).doRestart},
		{"set", (*Session).doSet},
		{"show", (*Session).doShow},
		{"stop", (*Session).doStop},
		{"submit", (*Session).doSubmit},
		{"update", doJobCommand},
		{"verify", (*Session).doVerify},
		{"wait", (*Session).doWait},
	}
}

// run runs one command and lets the world settle.
func (s *Session) run(c command) (string, error) {
	all := handlers()
	i := slices.IndexFunc(all, func(h handler) bool { return h.name == c.args.name })
	if i < 0 {
		var names []string
		for _, h := range all {
			names = append(names, h.name)
		}
		return "", fmt.Errorf("there is no command %q; the commands are %s", c.args.name, strings.Join(names, ", "))
	}
	if s.engine == nil && !slices.Contains([]string{"cluster", "set", "crash"}, c.args.name) {
		return "", fmt.Errorf("%s: a script begins with cluster", c.args.name)
	}
	s.journal.left = maxAppends
	own, err := all[i].run(s, c)
	if err == nil {
		err = s.runUntilIdle()
	}
	out := s.takeReaction()
	if own != "" && !strings.HasSuffix(own, "\n") {
		own += "\n"
	}
	if out == "" && own == "" {
		own = "ok\n"
	}
	return own + out, err
}
