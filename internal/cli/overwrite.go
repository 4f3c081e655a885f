package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Writes are the files that a flag makes a command write.
type Writes struct {
	Flag  string
	Files []string
}

// KeepApart returns an error where a command would overwrite what it reads, or write one file
// twice. It compares the files themselves, not their names. All files of a folder that is
// read count; "-" is standard input.
func (a *App) KeepApart(c *cobra.Command, reads []string, all ...Writes) error {
	inputs := a.inputs(reads)
	var wrong []error
	flagOf := map[string]string{}
	for _, w := range all {
		for _, file := range w.Files {
			if over := inputs.find(file); over != "" {
				wrong = append(wrong, fmt.Errorf("%s would write over %s, which this command reads; name another place for the results", w.Flag, over))
				break
			}
			place := placeOf(file)
			if other, twice := flagOf[place]; twice && other != w.Flag {
				wrong = append(wrong, fmt.Errorf("%s and %s would both write %s; name another place for one of them",
					other, w.Flag, file))
				break
			}
			flagOf[place] = w.Flag
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return UsageError{c, err}
	}
	return nil
}

// input is a file that a command reads.
type input struct {
	name string
	info os.FileInfo
}

type inputList []input

// inputs finds the files that are read. Missing files are reported elsewhere.
func (a *App) inputs(reads []string) (out inputList) {
	for _, name := range reads {
		info, err := os.Stat(name)
		if in, is := a.In.(*os.File); name == "-" && is {
			info, err = in.Stat()
			name = "standard input"
		}
		if err != nil {
			continue
		}
		out = append(out, input{name, info})
		inside, _ := os.ReadDir(name)
		for _, e := range inside {
			path := filepath.Join(name, e.Name())
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				out = append(out, input{path, info})
			}
		}
	}
	return out
}

// find returns the name of the input that is this file; "" where none is.
func (l inputList) find(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	for _, in := range l {
		if os.SameFile(in.info, info) {
			return in.name
		}
	}
	return ""
}

// placeOf is the path of a file that may not exist yet, with links in its folder resolved.
func placeOf(file string) string {
	dir, err := filepath.Abs(filepath.Dir(file))
	if real, wrong := filepath.EvalSymlinks(dir); wrong == nil {
		dir = real
	}
	if err != nil {
		return file
	}
	return filepath.Join(dir, filepath.Base(file))
}
