package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
)

// ReadFile reads a file of at most limit bytes; "-" is standard input.
func (a *App) ReadFile(file string, limit int64) ([]byte, error) {
	in := a.In
	if file != "-" {
		if file == "" {
			return nil, errors.New("the name of the file is empty")
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, CannotRead(file, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, CannotRead(file, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB", file, limit>>20)
	}
	return data, nil
}

// CannotRead names the file and the cause once.
func CannotRead(file string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("cannot read %s: %w", file, err)
}

// InFile puts the file's name before each mistake, as compilers do.
func InFile(file string, err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) || p.Code != rest.CodeInvalid && p.Code != rest.CodeNeverFits &&
		p.Code != rest.CodeConflict {
		return err
	}
	if slices.ContainsFunc(p.Errors, func(e rest.FieldError) bool { return strings.HasPrefix(e.Pointer, "query.") }) {
		return err // about a flag and not the file
	}
	if file == "-" {
		file = "standard input"
	}
	lines := []string{file + ": " + p.Detail}
	for _, e := range p.Errors {
		sep := ": "
		if e.Line > 0 {
			sep = ":"
		}
		lines = append(lines, "  "+file+sep+e.String())
	}
	return &Located{strings.Join(lines, "\n"), err}
}

// Located is an error with its place in a file.
type Located struct {
	Text string
	Err  error
}

// Warn prints warnings about a file.
func (a *App) Warn(file string, warnings []string) {
	for _, w := range warnings {
		sep := ": "
		if w != "" && w[0] >= '1' && w[0] <= '9' {
			sep = ":" // the warning begins with its line
		}
		if file == "" {
			sep = ""
		}
		fmt.Fprintf(a.Errs, "warning: %s%s%s\n", file, sep, Clean(w, false))
	}
}

// Error implements error.
func (l *Located) Error() string { return l.Text }

// Unwrap is for errors.As.
func (l *Located) Unwrap() error { return l.Err }
