// Package cli is what all commands share: tables and trees in text, the lines of
// several tasks, streams and ports of a task, and what is said of wrong flags. It
// must not know what any command does.
package cli

// Table takes the columns' names, rows, text that is no row, and whole files.
type Drawing struct {
	Head, Row func(...string)
	Line      func(string, ...any)
	Text      func(string)
}
