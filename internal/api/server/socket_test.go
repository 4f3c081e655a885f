package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// A caller's environment is taken over the server's socket alone, and is a secret
// of the job: in no event and no answer, erased when the job ends.
func TestCallerOverTheSocket(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	dir := t.TempDir()
	local := server.New(server.Options{Live: w.live, Replica: w.replica, Store: w.store, People: w.people, Now: wall,
		SameFolder: func(f rest.Folder) error {
			if f.Inode != 7 {
				return errors.New("another folder")
			}
			return nil
		}})
	l, err := server.ListenLocal(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	h := local.HTTP()
	go h.Serve(l)
	t.Cleanup(func() { local.Close(); h.Close() })
	client, err := w.client.Local(ctx, filepath.Join(dir, rest.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	with := func(inode uint64) rest.SubmitRequest {
		return rest.SubmitRequest{Quick: &rest.QuickJob{Name: "mine", GPUs: 1, Command: []string{"true"},
			Caller: &rest.Caller{Folder: rest.Folder{Path: "/here", Inode: inode}, Env: []byte("A=hush\x00B=\xe9=\x00")}}}
	}
	for _, refused := range []struct {
		client *rest.Client
		inode  uint64
		key    string
	}{{w.client, 7, "quick.caller"}, {client, 8, "quick.caller.folder"}} {
		_, err := refused.client.Submit(ctx, with(refused.inode), "")
		var p *rest.Problem
		if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 1 || p.Errors[0].Pointer != refused.key {
			t.Errorf("want a refusal of %s, have %v", refused.key, err)
		}
	}
	out, err := client.Submit(ctx, with(7), "")
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := w.store.Secrets(ctx, out.ID)
	if err != nil {
		t.Fatal(err)
	}
	if env, err := jobspec.CallerEnv(secrets); err != nil || !slices.Equal(env, []string{"A=hush", "B=\xe9="}) {
		t.Errorf("the environment is %q, %v", env, err)
	}
	job, err := client.Job(ctx, "mine")
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.store.JobEvents(ctx, out.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := json.Marshal([]any{job, events})
	if bytes.Contains(shown, []byte("hush")) || bytes.Contains(shown, []byte("QT1odXNo")) || !bytes.Contains(shown, []byte("/here")) {
		t.Errorf("what is shown of it: %s", shown)
	}
	if _, err := client.Stop(ctx, rest.JobRef(out.ID), ""); err != nil {
		t.Fatal(err)
	}
	w.until("it has ended", func() bool {
		j, err := client.Job(ctx, rest.JobRef(out.ID))
		return err == nil && j.Phase == model.Stopped
	})
	if secrets, err := w.store.Secrets(ctx, out.ID); err != nil || len(secrets) > 0 {
		t.Errorf("of a job that ended it keeps %d secrets, %v", len(secrets), err)
	}
	if _, err := server.ListenLocal(ctx, filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("without a folder: %v", err)
	}
}
