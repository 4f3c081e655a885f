package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// Confirm asks on the terminal. Without one it refuses, and says what to do.
func (a *App) Confirm(question, otherwise string) error {
	if !IsTerminal(os.Stdin) || !a.TTY {
		return Hint{fmt.Errorf("nothing was changed: there is no terminal to ask on"), otherwise}
	}
	yes, err := Answered(a, question)
	if err == nil && !yes {
		err = fmt.Errorf("nothing was changed")
	}
	return err
}

// Answered asks, and reports whether the answer is yes. Ctrl-C is no answer: the error is
// context.Canceled then, and that nothing was done has been said.
func Answered(a *App, question string) (yes bool, err error) {
	fmt.Fprint(a.Errs, question+" [y/N] ")
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // a read of a terminal cannot be called off; the process ends with the command
		text, err := bufio.NewReader(a.In).ReadString('\n')
		typed <- line{text, err}
	}()
	select {
	case <-a.Interrupted:
		fmt.Fprintln(a.Errs, "\ncomb: interrupted: nothing was done")
		return false, context.Canceled
	case l := <-typed:
		if l.err != nil {
			fmt.Fprintln(a.Errs) // the line of the question has no end yet
		}
		text := strings.ToLower(strings.TrimSpace(l.text))
		return text == "y" || text == "yes", nil
	}
}
