package cli

// Table takes the columns' names, rows, text that is no row, and whole files.
type Table struct {
	Head, Row func(...string)
	Line      func(string, ...any)
	Text      func(string)
}
