package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// maxSecret bounds a password, in bytes.
const maxSecret = 1024

var errNoTerminal = errors.New("standard input is no terminal, at which to ask")

// readSecret reads standard input, without the line break at its end.
func (k *peopleCommands) readSecret(most int) (string, error) {
	data, err := io.ReadAll(io.LimitReader(k.In, int64(most)+3))
	if err != nil {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if len(text) > most {
		return "", fmt.Errorf("standard input has more than %d bytes: that is no password", most)
	}
	return text, nil
}

// password reads a password from standard input, or asks for it on the terminal.
func (k *peopleCommands) password(c *cobra.Command, stdin bool, what string) (string, error) {
	var text string
	var err error
	if stdin {
		text, err = k.readSecret(maxSecret)
	} else {
		text, err = k.line(c.Context(), what+": ", true)
		err = k.noTerminal(c, err, "--password-stdin")
	}
	if err != nil {
		return "", err
	}
	return text, checkSecret(text)
}

// twice asks for a new password until it was typed the same way twice.
func (k *peopleCommands) twice(c *cobra.Command, what string) (string, error) {
	for {
		one, err := k.password(c, false, what)
		if err != nil {
			return "", err
		}
		two, err := k.password(c, false, what+" once more")
		if err != nil || one == two {
			return one, err
		}
		fmt.Fprintln(k.Errs, "they differ; try again")
	}
}

// ask asks for a line; an empty answer is the default.
func (k *peopleCommands) ask(ctx context.Context, what, def string) (string, error) {
	prompt := what + ": "
	if def != "" {
		prompt = what + " [" + def + "]: "
	}
	text, err := k.line(ctx, prompt, false)
	if text = strings.TrimSpace(text); text == "" {
		text = def
	}
	if err == nil && text == "" {
		err = errors.New("a user's name is needed")
	}
	return text, err
}

// line asks on the terminal. A secret is not echoed.
func (k *peopleCommands) line(ctx context.Context, prompt string, secret bool) (string, error) {
	in, ok := k.In.(*os.File)
	if !ok {
		return "", errNoTerminal
	}
	fd := int(in.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return "", errNoTerminal
	}
	if secret {
		quiet := *was
		quiet.Lflag &^= unix.ECHO
		quiet.Lflag |= unix.ECHONL | unix.ICANON | unix.ISIG
		if err := unix.IoctlSetTermios(fd, unix.TCSETSF, &quiet); err != nil { // drops what was typed before
			return "", fmt.Errorf("cannot hide what is typed: %w", err)
		}
		defer func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, was) }()
	}
	fmt.Fprint(k.Errs, prompt)
	type typed struct {
		text string
		err  error
	}
	got := make(chan typed, 1)
	go func() { // a read from a terminal cannot be cancelled; it ends with the process
		text, err := readLine(in)
		got <- typed{text, err}
	}()
	select {
	case t := <-got:
		return t.text, t.err
	case <-ctx.Done():
		fmt.Fprintln(k.Errs)
		return "", ctx.Err()
	}
}

// readLine reads up to the end of a line, a byte at a time, since what follows answers the
// next question.
func readLine(in io.Reader) (string, error) {
	var text []byte
	for b := make([]byte, 1); ; {
		n, err := in.Read(b)
		if n == 1 && b[0] == '\n' {
			return strings.TrimSuffix(string(text), "\r"), nil
		}
		text = append(text, b[:n]...)
		if err != nil || len(text) > maxSecret {
			return "", errors.New("the line did not end: nothing is done")
		}
	}
}
