package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

// The teams of Portal's cluster; the password is printed, and the server listens to this machine
// alone.
const demoPassword = "a demo password"

var demoUsers = []struct{ name, group string }{{"alice", "vision"}, {"victor", "vision"}, {"bob", "speech"}, {"sonja", "speech"}}

// demoJob is a kind of job that users there submit; seconds is about how long it takes.
type demoJob struct {
	name     string
	vcs      []string
	tasks    []int32
	gpus     []int64
	priority []string
	seconds  int
}

var demoJobs = []demoJob{
	{"train", []string{"own", "own", "shared"}, []int32{1, 2}, []int64{1, 2, 4}, []string{"test", "test", "prod"}, 60},
	{"finetune", []string{"own"}, []int32{1}, []int64{1, 2}, []string{"test"}, 40},
	{"sweep", []string{"own", "shared"}, []int32{1, 3}, []int64{1}, []string{"oppo", "oppo", "test"}, 50},
	{"eval", []string{"shared"}, []int32{1}, []int64{1}, []string{"test"}, 20},
	{"pretrain", []string{"own"}, []int32{2}, []int64{4}, []string{"prod"}, 80},
}

// Portal starts a server with a small cluster in which four users submit jobs until ctx is done,
// and prints where its portal is. The tasks are processes that count; a tenth of them fails.
func Portal(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "comb-portal-")
	if err != nil {
		return err
	}
	s := &Server{Bin: o.Bin, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log"), Listen: o.Listen,
		Args: []string{"--virtual-gpus", "8",
			"--overcommit", "--trust-users", "--runtime", "process",
			"--cluster", filepath.Join(o.Files, "cluster-demo.yaml")}}
	defer func() { err = errors.Join(err, s.Stop(), Sweep(dir), os.RemoveAll(dir)) }()
	if err := s.Start(ctx); err != nil {
		return err
	}
	admin, err := s.Client()
	if err != nil {
		return err
	}
	clients, err := demoPeople(ctx, admin, s.URL)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "the portal is at %s\nsign in as carol, who administrates, or as alice, victor (vision), bob, sonja (speech); the password is: %s\nCtrl-C ends it\n", s.URL, demoPassword)
	r := rand.New(rand.NewPCG(1, 1))
	for n := 1; ; n++ {
		user := demoUsers[r.IntN(len(demoUsers))]
		_, err := clients[user.name].Submit(ctx, rest.SubmitRequest{Quick: demoSubmission(r, n, user.group)}, "")
		if err != nil && ctx.Err() == nil && rest.CodeOf(err) == "" {
			return err
		}
		pause := 3 * time.Second
		if n < 16 {
			pause = 200 * time.Millisecond // a full cluster to begin with
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// demoPeople makes the users and returns a client of each.
func demoPeople(ctx context.Context, admin *rest.Client, url string) (map[string]*rest.Client, error) {
	list := []rest.NewUser{{Name: "carol", Administrator: true, Password: demoPassword}}
	clients := map[string]*rest.Client{}
	for _, group := range []string{"vision", "speech"} {
		if _, err := admin.People().CreateGroup(ctx, rest.NewGroup{Name: group}); err != nil {
			return nil, err
		}
	}
	for _, u := range demoUsers {
		list = append(list, rest.NewUser{Name: u.name, Groups: []string{u.group}, Password: demoPassword})
	}
	if _, err := admin.People().CreateUsers(ctx, list...); err != nil {
		return nil, err
	}
	for _, u := range demoUsers {
		in, err := admin.People().SignIn(ctx, rest.SignIn{User: u.name, Password: demoPassword})
		if err != nil {
			return nil, err
		}
		if clients[u.name], err = rest.NewClient(url, in.Token); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

func demoSubmission(r *rand.Rand, n int, group string) *rest.QuickJob {
	j := demoJobs[r.IntN(len(demoJobs))]
	vc := j.vcs[r.IntN(len(j.vcs))]
	if vc == "own" {
		vc = group
	}
	seconds := j.seconds/2 + r.IntN(j.seconds)
	end := "exit 0"
	if r.IntN(10) == 0 {
		end = "echo 'loss is not a number' >&2; exit 1"
	}
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "step $i of %d, loss 0.$((900-i*7))"; echo "{\"step\": $i, \"total\": %d, \"checkpoint\": true}" >> $COMB_PROGRESS_FILE; sleep 1; done; %s`,
		seconds, seconds, seconds, end)
	return &rest.QuickJob{Name: fmt.Sprintf("%s-%d", j.name, n), VC: vc, Tasks: j.tasks[r.IntN(len(j.tasks))], GPUs: j.gpus[r.IntN(len(j.gpus))],
		Priority: j.priority[r.IntN(len(j.priority))], CPUs: "0.1", MemoryMB: 32, TimeLimit: "10m", Grace: "2s", Checkpoint: true, Command: []string{"sh", "-c", script}}
}
