package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// Confirm asks on the terminal. Without a terminal it refuses, and says what to do instead.
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

// Answered asks, and reports whether the answer is yes. After Ctrl-C it says that nothing was
// done, and the error is context.Canceled.
func Answered(a *App, question string) (yes bool, err error) {
	fmt.Fprint(a.Errs, question+" [y/N] ")
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // a read from a terminal cannot be cancelled; it ends with the process
		text, err := bufio.NewReader(a.In).ReadString('\n')
		typed <- line{text, err}
	}()
	select {
	case <-a.Interrupted:
		fmt.Fprintln(a.Errs, "\ncomb: interrupted: nothing was done")
		return false, context.Canceled
	case l := <-typed:
		if l.err != nil {
			fmt.Fprintln(a.Errs) // ends the line of the question
		}
		text := strings.ToLower(strings.TrimSpace(l.text))
		return text == "y" || text == "yes", nil
	}
}
