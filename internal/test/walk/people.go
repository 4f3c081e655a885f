package walk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
)

// apart: alice and bob, each in a virtual cluster of their own, sign in and run a job of the same
// name; neither finds the other's by list, number, name, log or events, and the administrator sees
// both.
func apart(ctx context.Context, w *walk) error {
	file, err := w.write("teams.yaml", strings.NewReplacer("  blue:\n", "    access: {members: [red-team]}\n  blue:\n    access: {members: [blue-team]}\n").Replace(fmt.Sprintf(cluster, 2, 1)))
	if err != nil {
		return err
	}
	if _, err := w.must(ctx, "config", "apply", "--yes", file); err != nil {
		return err
	}
	users := map[string]string{"alice": "red", "bob": "blue"}
	ids := map[string]string{}
	for user, vc := range users {
		if ids[user], err = w.signedIn(ctx, user, vc); err != nil {
			return err
		}
	}
	for user, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		var list rest.JobList
		a, err := w.as(ctx, user, "", "job", "list", "-o", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(a.out), &list); err != nil {
			return fmt.Errorf("comb job list as %s: %s: %w", user, a.all(), err)
		}
		own, foreign := 0, 0
		for _, j := range list.Jobs {
			if string(j.VC) != users[user] {
				foreign++
			}
			if j.Name == "train" && string(j.User) == user {
				own++
			}
		}
		w.expect(own == 1 && foreign == 0, user+"'s list has the own train, and no job of another virtual cluster",
			"%d jobs: %d the own train, %d of other virtual clusters", len(list.Jobs), own, foreign)
		for _, verb := range []string{"get", "logs", "events", "explain", "stop"} {
			for _, ref := range []string{ids[other], other + "~train"} {
				a, err := w.as(ctx, user, "", "job", verb, ref)
				if err != nil {
					return err
				}
				w.expect(a.code == 3 && a.out == "", fmt.Sprintf("for %s there is no job %s: comb job %s ends with 3", user, ref, verb), "exit code %d: %s", a.code, a.all())
			}
		}
		a, err = w.as(ctx, user, "", "job", "logs", "train", "--tail", "1")
		if err != nil {
			return err
		}
		w.expect(a.code == 0 && strings.Contains(a.out, "of "+user), "train is the own job: its log", "%s", a.all())
	}
	if err := w.refused(ctx); err != nil {
		return err
	}
	for user := range users {
		if _, err := w.must(ctx, "job", "stop", user+"~train", "--wait"); err != nil {
			return err
		}
		if _, err := w.must(ctx, "user", "delete", user, "--yes"); err != nil {
			return err
		}
		a, err := w.as(ctx, user, "", "whoami")
		if err != nil {
			return err
		}
		w.expect(a.code == 4, "a deleted user's session has ended", "exit code %d: %s", a.code, a.all())
	}
	_, err = w.must(ctx, "config", "apply", "--yes", w.path("cluster.yaml"))
	return err
}

// refused: a job for another team's virtual cluster, and users made by no administrator; the audit
// log has both.
func (w *walk) refused(ctx context.Context) error {
	for _, args := range [][]string{{"job", "run", "--vc", "blue", "--", "true"}, {"user", "create", "eve"}, {"config", "show"}} {
		a, err := w.as(ctx, "alice", "", args...)
		if err != nil {
			return err
		}
		w.expect(a.code == 4, "alice may not: comb "+strings.Join(args, " "), "exit code %d: %s", a.code, a.all())
	}
	for last := ""; ; {
		a, err := w.must(ctx, "audit", "list", "--limit", "100")
		if err != nil {
			return err
		}
		if strings.Contains(a.out, "change users and groups") && strings.Contains(a.out, "refused") {
			w.expect(true, "the audit log has what was refused", "%.100s", a.all())
			break
		}
		if ctx.Err() != nil {
			return errors.New("the audit log lacks what was refused: " + last)
		}
		last = a.all()
	}
	log, err := w.must(ctx, "audit", "list", "--limit", "1000")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(log.out, "apply configuration"),
		"the audit log has each cluster file that was applied", "%.200s", log.all())
	a, err := w.must(ctx, "audit", "verify")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(a.out, "sound"), "the audit log is sound", "%s", a.all())
	return nil
}

// signedIn makes a user, signs in as it, and starts a job as it. It returns the job's number.
func (w *walk) signedIn(ctx context.Context, user, vc string) (id string, err error) {
	const password = "correct-horse-"
	if _, err := w.must(ctx, "group", "create", vc+"-team"); err != nil {
		return "", err
	}
	made, err := w.as(ctx, "", password+user, "user", "create", user, "--group", vc+"-team", "--password-stdin")
	if err != nil || made.code != 0 {
		return "", errors.Join(err, errors.New(made.all()))
	}
	in, err := w.as(ctx, user, password+user, "login", "--user", user, "--password-stdin")
	if err != nil {
		return "", err
	}
	w.expect(in.code == 0 && strings.Contains(in.out, "signed in as "+user), user+" signs in", "exit code %d: %s", in.code, in.all())
	run, err := w.as(ctx, user, "", "job", "run", "-d", "--name", "train", "--vc", vc, "--", "sh", "-c", "echo of $0; exec sleep 600", user)
	if err != nil || run.code != 0 {
		return "", errors.Join(err, errors.New(run.all()))
	}
	j, err := w.until(ctx, user+"~train", "running", running)
	return rest.JobRef(j.ID), err
}

// as runs the command line as a user of Comb, with contexts of its own; "" is the administrator.
// The input is what is read from standard input.
func (w *walk) as(ctx context.Context, user, input string, args ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := w.command(ctx, args...)
	if user != "" {
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+filepath.Join(w.dir, "config-of-"+user))
	}
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return answer{}, fmt.Errorf("comb %s: %w", strings.Join(args, " "), errors.Join(err, ctx.Err()))
	}
	return answer{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, nil
}
