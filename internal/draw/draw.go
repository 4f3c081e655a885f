// Package draw is how a command draws its result as text. It must not know where the text goes.
package draw

// Table takes the columns' names, rows, text that is no row, and whole files.
type Table struct {
	Head, Row func(...string)
	Line      func(string, ...any)
	Text      func(string)
}
