package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/google/go-cmp/cmp"
)

// backTo7 makes of a data directory what the program left whose jobs had no tags.
const backTo7 = `
DROP TABLE tags;
PRAGMA user_version = 7;
`

// backTo6 makes of a data directory what the program left that kept one cluster file, and all files
// of ended jobs.
const backTo6 = backTo7 + `
DROP TABLE removed;
DROP TABLE configs;
PRAGMA user_version = 6;
`

// backTo5 makes of a data directory what the program left that read all ended jobs for a list.
const backTo5 = backTo6 + `
DROP INDEX jobs_list;
DROP INDEX jobs_user;
DROP INDEX jobs_vc;
CREATE INDEX jobs_user ON jobs (user, id);
CREATE INDEX jobs_vc ON jobs (vc, id);
PRAGMA user_version = 5;
`

// backTo4 is the program whose names were one job's of all users.
const backTo4 = backTo5 + `
DROP INDEX jobs_name;
CREATE INDEX jobs_name ON jobs (name, id);
PRAGMA user_version = 4;
`

// backTo3 is the program that knew no people.
const backTo3 = backTo4 + `
ALTER TABLE tokens DROP COLUMN bounds;
DROP TABLE objects;
DROP TABLE audit;
PRAGMA user_version = 3;
`

// toVersion1 makes of a data directory what the program before checksums left.
const toVersion1 = backTo3 + `
ALTER TABLE head DROP COLUMN changes;
ALTER TABLE head DROP COLUMN job;
ALTER TABLE head DROP COLUMN link;
ALTER TABLE head DROP COLUMN rows;
ALTER TABLE events DROP COLUMN link;
ALTER TABLE archive DROP COLUMN link;
ALTER TABLE jobs DROP COLUMN sum;
ALTER TABLE secrets DROP COLUMN sum;
ALTER TABLE tokens DROP COLUMN sum;
ALTER TABLE head DROP COLUMN forgot;
ALTER TABLE head DROP COLUMN answered;
PRAGMA user_version = 1;
`

func TestDirectoryOfVersion1IsSealedFromThenOn(t *testing.T) {
	dir := crashed(t)
	end, want, err := all(dir)
	if err != nil {
		t.Fatal(err)
	}
	remove(sealFile)(t, dir)
	execSQL(toVersion1)(t, dir)

	// Beside a server of that version it can be read; nothing of it changes.
	reader, err := Open(ctx, dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(replayed(t, reader, 0)); uint64(n) != end {
		t.Errorf("%d events before the change, want %d", n, end)
	}
	if _, err := reader.Check(ctx, func(p string) { t.Error(p) }); err != nil {
		t.Error(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, sealFile)); err == nil {
		t.Error("a reader made a seal")
	}

	last, has, err := all(dir)
	if err != nil || last != end {
		t.Fatalf("it opens with %d of %d events: %v", last, end, err)
	}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("what it has differs: %s", diff)
	}
	seal, err := readSeal(filepath.Join(dir, sealFile))
	if err != nil || seal.seq != end || seal.job != 200 {
		t.Errorf("the seal says %+v, %v", seal, err)
	}

	// From now on what goes is missed, also the change to this version itself.
	execSQL(toVersion1)(t, dir)
	refused(t, dir, "is older than its journal.seal", "comb journal repair")
}

// TestOlderDirectoriesOpenAsBefore: nothing of them changes but how ended jobs are found by name.
func TestOlderDirectoriesOpenAsBefore(t *testing.T) {
	for version, back := range map[string]string{"3": backTo3, "4": backTo4, "5": backTo5, "6": backTo6, "7": backTo7} {
		t.Run(version, func(t *testing.T) {
			dir := crashed(t)
			end, want, err := all(dir)
			if err != nil {
				t.Fatal(err)
			}
			execSQL(back)(t, dir)
			s := open(t, dir)
			for _, name := range []string{"jobs_name", "jobs_list", "jobs_user", "jobs_vc"} {
				var index string
				if err := s.read.QueryRowContext(ctx, "SELECT sql FROM sqlite_schema WHERE name = ?", name).Scan(&index); err != nil || !strings.Contains(schema, index+";") {
					t.Errorf("ended jobs are found by %s: %v", index, err)
				}
			}
			for user, id := range map[model.Subject]model.JobID{"ann": 200, "bob": 0} {
				if j, ok, err := s.LastNamed(ctx, user, "done"); ok != (id > 0) || err != nil || j.ID != id {
					t.Errorf("the last job done of %s is %d, %v, %v; want %d", user, j.ID, ok, err, id)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			last, has, err := all(dir)
			if err != nil || last != end {
				t.Fatalf("it opens with %d of %d events: %v", last, end, err)
			}
			if diff := cmp.Diff(want, has); diff != "" {
				t.Errorf("what it has differs: %s", diff)
			}
		})
	}
}

// TestDamageOfVersion1StaysWhereItWas: an event that was damaged before is not what stops the start
// as long as a snapshot is behind it; it is found when it is read.
func TestDamageOfVersion1StaysWhereItWas(t *testing.T) {
	dir := crashed(t)
	_, _, err := all(dir)
	if err != nil {
		t.Fatal(err)
	}
	remove(sealFile)(t, dir)
	execSQL(toVersion1+"UPDATE archive SET data = x'00112233' WHERE first = 1")(t, dir)
	s := open(t, dir)
	if n := len(replayed(t, s, 300)); n == 0 {
		t.Error("nothing is behind the damage")
	}
	if _, err := s.page(ctx, 1); err == nil || !strings.Contains(err.Error(), "the archive of events 1 to") {
		t.Errorf("the damaged chunk: %v", err)
	}
}
