package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/google/go-cmp/cmp"
)

// crashed is a data directory as a killed server leaves it, with part of everything in the main
// file and part in the log: archive, snapshots, finished jobs, secrets, tokens, 200 jobs in 420
// events, and what more is given to the store.
func crashed(t *testing.T, more ...func(*Store)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	seq := uint64(0)
	for id := model.JobID(1); id <= 200; id++ {
		b := submission(s, seq+1, id, strings.Repeat("source ", 40))
		if id%10 == 0 {
			b.Records = append(b.Records, model.Record{Seq: b.Last() + 1, Event: model.JobEnded{Job: id}})
			b.Ended = []model.JobStatus{{ID: id, Name: "done", User: "ann", Phase: model.Succeeded}}
		}
		if id%7 == 0 {
			b.Secrets = []engine.JobSecrets{{Job: id, Values: map[string]string{"token": "value"}}}
		}
		if err := s.Append(ctx, b); err != nil {
			t.Fatal(err)
		}
		seq = b.Last()
		if id == 60 || id == 130 {
			if err := s.SaveSnapshot(ctx, seq, []byte(fmt.Sprint("state ", seq))); err != nil {
				t.Fatal(err)
			}
		}
		if id == 100 {
			s.writer.shrinkLog()
		}
	}
	if _, _, err := s.CreateToken(ctx, "laptop", "ann", 1); err != nil {
		t.Fatal(err)
	}
	for _, f := range more {
		f(s)
	}
	image := filepath.Join(t.TempDir(), "image")
	copyDir(t, dir, image)
	return image
}

// copyDir copies the files of a data directory that stay with a crash.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(to, jobsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{databaseFile, logFile, sealFile, keyFile, clusterIDFile} {
		if _, err := os.Stat(filepath.Join(from, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// all is what a directory says it has; err is what it says of damage when it is verified. last is
// the event with which a server would start, 0 if it would not.
func all(dir string) (last uint64, has []string, err error) {
	s, err := Open(ctx, dir, Options{ReserveBytes: 1 << 10})
	if err != nil {
		return 0, nil, err
	}
	defer s.Close()
	_, snapshot, err := s.Snapshot(ctx)
	if err != nil {
		return 0, nil, err
	}
	last = snapshot
	err = s.Replay(ctx, snapshot, func(r model.Record) error { last = r.Seq; return nil })
	if err != nil {
		return 0, nil, err
	}
	has, err = verified(s)
	return last, has, err
}

func verified(s *Store) (has []string, err error) {
	err = s.Replay(ctx, 0, func(r model.Record) error {
		kind, _, data, err := model.EncodeEvent(r.Event)
		has = append(has, fmt.Sprintf("%d %s %s", r.Seq, kind, data))
		return err
	})
	if err != nil {
		return nil, err
	}
	for id := model.JobID(10); id <= 200; id += 10 {
		j, ok, err := s.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		has = append(has, fmt.Sprint(ok, j))
	}
	for id := model.JobID(7); id <= 200; id += 7 {
		values, err := s.Secrets(ctx, id)
		if err != nil {
			return nil, err
		}
		has = append(has, fmt.Sprint(id, values))
	}
	versions, err := s.Configs(ctx, 0, 10)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		_, file, _, err := s.ConfigFile(ctx, v.Version)
		if err != nil {
			return nil, err
		}
		has = append(has, fmt.Sprint(v, string(file)))
	}
	for _, token := range s.ListTokens() {
		has = append(has, fmt.Sprint(token))
	}
	var errs []error
	_, err = s.Check(ctx, func(message string) { errs = append(errs, errors.New(message)) })
	return has, errors.Join(append(errs, err)...)
}

// damage is one thing that can happen to the files of a directory.
type damage struct {
	name string
	do   func(dir string) error
}

func flip(file string, at int64, bit int) damage {
	return damage{fmt.Sprintf("flip bit %d of byte %d of %s", bit, at, file), func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		b[0] ^= 1 << bit
		_, err = f.WriteAt(b, at)
		return err
	}}
}

func cutOff(file string, at int64) damage {
	return damage{fmt.Sprintf("cut %s at byte %d", file, at), func(dir string) error {
		return os.Truncate(filepath.Join(dir, file), at)
	}}
}

func without(files ...string) damage {
	return damage{fmt.Sprintf("without %v", files), func(dir string) error {
		for _, name := range files {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// damages are many of them: bits all over each file, cuts at each page and frame, and between.
func damages(image string) []damage {
	const page, frame = 4096, 4096 + 24
	list := []damage{without(logFile), without(sealFile), without(databaseFile), without(keyFile), without(clusterIDFile),
		without(logFile, sealFile), without(logFile, sealFile, keyFile, clusterIDFile), without(sealFile, keyFile, clusterIDFile), cutOff(sealFile, 0), cutOff(sealFile, 4096), cutOff(sealFile, 5000)}
	every := map[string]int64{databaseFile: 3391, logFile: 4391, sealFile: 61}
	if testing.Short() {
		every = map[string]int64{databaseFile: 9391, logFile: 19391, sealFile: 461}
	}
	for _, file := range slices.Sorted(slices.Values([]string{databaseFile, logFile, sealFile})) {
		for at := every[file] / 50; at < size(filepath.Join(image, file)); at += every[file] {
			list = append(list, flip(file, at, int(at%8)))
		}
	}
	step := int64(1)
	if testing.Short() {
		step = 9
	}
	for at := int64(32); at <= size(filepath.Join(image, logFile)); at += step * frame {
		list = append(list, cutOff(logFile, at), cutOff(logFile, at-step))
	}
	for at := int64(0); at < size(filepath.Join(image, databaseFile)); at += 5 * step * page {
		list = append(list, cutOff(databaseFile, at), cutOff(databaseFile, at+page/2))
	}
	return list
}

// TestDamageIsNeverSilent does everything to a directory that may happen to one, and compares what
// it has then with what was acknowledged: it has all of that, or it says what is wrong.
func TestDamageIsNeverSilent(t *testing.T) {
	image := crashed(t, func(s *Store) {
		for _, tag := range []string{"one", "two"} {
			v := engine.ConfigVersion{Time: 1, Author: "ann", Reason: "for " + tag}
			file := []byte(strings.Repeat("file "+tag, 500))
			if err := errors.Join(s.BeginConfig(ctx, v, file), s.EndConfig(ctx, tag)); err != nil {
				t.Fatal(err)
			}
		}
	})
	whole := filepath.Join(t.TempDir(), "whole")
	copyDir(t, image, whole)
	end, want, err := all(whole)
	if err != nil {
		t.Fatalf("without damage: %v", err)
	}
	said, kept := 0, 0
	for i, d := range damages(image) {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		copyDir(t, image, dir)
		if err := d.do(dir); err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		last, has, err := all(dir)
		switch {
		case last != 0 && last != end:
			t.Errorf("%s: a server starts with %d of %d events (%v)", d.name, last, end, err)
		case err != nil:
			said++
		case cmp.Diff(want, has) != "":
			t.Errorf("%s: silent, and what is there differs: %d of %d", d.name, len(has), len(want))
		default:
			kept++
		}
		_ = os.RemoveAll(dir)
	}
	t.Logf("%d damages said, %d lost nothing", said, kept)
	if said == 0 || kept == 0 {
		t.Error("one of these never happens")
	}
}

// A seal that cannot be written twice in a row keeps the copy that is whole: what fails may have
// broken its own slot.
func TestSealKeepsTheSoundCopy(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1, 1)
	file, sound := s.seal.file, s.mark
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	s.seal.file = closed
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 3, 1) // one write fails here, and one below
	if err := s.Sealed(); err == nil {
		t.Error("sealed in a closed file")
	}
	s.seal.file = file
	torn := append([]byte(sealMark), make([]byte, slotSize-len(sealMark))...)
	if _, err := file.WriteAt(torn, int64(s.seal.turn%2)*slotSize); err != nil { // what those writes may have left
		t.Fatal(err)
	}
	if kept, err := readSeal(s.path(sealFile)); err != nil || kept.journalMark != sound {
		t.Errorf("the copy of before says %+v, %v; want %+v", kept.journalMark, err, sound)
	}
	if err := s.Sealed(); err != nil {
		t.Error(err)
	}
	if kept, err := readSeal(s.path(sealFile)); err != nil || kept.journalMark != s.mark {
		t.Errorf("once it can be written it says %+v, %v; want %+v", kept.journalMark, err, s.mark)
	}
}
