package upkeep

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/combsched/comb/internal/core/model"
)

// Folder holds files of jobs in one folder, with a subfolder for each job, by its number.
type Folder struct {
	Dir    string
	Remove func(model.JobID) error // removes a job's files, unless an attempt may live
}

// Left implements Files.
func (f Folder) Left() (list []model.JobID, err error) {
	entries, err := os.ReadDir(f.Dir)
	for _, e := range entries {
		id, parseErr := strconv.ParseInt(e.Name(), 10, 64)
		if parseErr == nil && id > 0 && strconv.FormatInt(id, 10) == e.Name() {
			list = append(list, model.JobID(id))
		}
	}
	return list, err
}

// Size implements Files. It follows no links. What disappears meanwhile, or cannot be entered,
// counts as 0.
func (f Folder) Size(id model.JobID) (total int64, err error) {
	err = filepath.WalkDir(filepath.Join(f.Dir, strconv.FormatInt(int64(id), 10)), func(_ string, d fs.DirEntry, walkErr error) error {
		if walkErr != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total, err
}

// Forget implements Files.
func (f Folder) Forget(id model.JobID) error { return f.Remove(id) }
