package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// entries cuts a JSON array into its entries, one at a time, since it may not fit into
// memory. The array may be on many lines or on one.
type entries struct {
	*lines
	rest   []byte // read but not yet consumed; a line break is its last byte
	line   int    // of rest, from 1
	column int    // of rest, from 0
	begun  bool
	ended  bool
	buf    []byte
	// where the entry begins that next returned last
	fromLine, fromColumn int
}

// next returns the next entry.
func (e *entries) next() ([]byte, error) {
	if e.ended {
		return nil, io.EOF
	}
	b, err := e.nextSeparator()
	switch {
	case err != nil:
		return nil, err
	case b == ']':
		return nil, e.tail()
	case b != '{':
		return nil, e.wrong("want an entry in { }, found " + quoted([]byte{b}))
	}
	return e.whole()
}

// nextSeparator skips what stands between entries, and returns the byte after it.
func (e *entries) nextSeparator() (byte, error) {
	b, err := e.peekByte()
	if err != nil {
		return 0, err
	}
	if !e.begun {
		if b != '[' {
			return 0, e.wrong("want a JSON array of jobs, found " + quoted([]byte{b}))
		}
		e.begun = true
		e.consume(1)
		return e.peekByte()
	}
	switch b {
	case ',':
		e.consume(1)
		if b, err = e.peekByte(); err == nil && b == ']' {
			return 0, e.wrong("a comma before the end of the array; remove it")
		}
	case '{':
		return 0, e.wrong("a comma between two entries is missing")
	}
	return b, err
}

// peekByte returns the next byte that is no white space, and does not consume it.
func (e *entries) peekByte() (byte, error) {
	for {
		e.consume(len(e.rest) - len(bytes.TrimLeft(e.rest, " \t\r\n")))
		if len(e.rest) > 0 {
			return e.rest[0], nil
		}
		if err := e.more(); err != nil {
			return 0, err
		}
	}
}

// consume consumes n bytes of rest.
func (e *entries) consume(n int) {
	if n > 0 && e.rest[n-1] == '\n' {
		e.line, e.column = e.line+1, 0
	} else {
		e.column += n
	}
	e.rest = e.rest[n:]
}

// more reads on. The file must not end before the array does.
func (e *entries) more() error {
	err := e.readMore()
	if errors.Is(err, io.EOF) && e.begun {
		return e.wrong("the file ends inside the array: it is not whole")
	}
	return err
}

// readMore reads a line, or as much of one as the buffer holds.
func (e *entries) readMore() error {
	b, err := e.lines.buf.ReadSlice('\n')
	e.n = e.line - 1 // broken adds one to it
	if len(b) == 0 && err != nil {
		return e.broken(err)
	}
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
		return e.broken(err)
	}
	e.rest = b
	return nil
}

func (e *entries) wrong(text string) error {
	e.ended = true
	return &Error{File: e.file, Line: e.line, Column: e.column + 1, Kind: "bad JSON", Text: text}
}

// tail checks that nothing follows the array.
func (e *entries) tail() error {
	e.consume(1)
	for {
		e.consume(len(e.rest) - len(bytes.TrimLeft(e.rest, " \t\r\n")))
		if len(e.rest) > 0 {
			return e.wrong("want nothing behind the array, found " + quoted(bytes.TrimSpace(e.rest)))
		}
		if err := e.readMore(); err != nil {
			e.ended = true
			return err
		}
	}
}

// whole collects an entry up to its closing brace, knowing only quotes and depth.
func (e *entries) whole() ([]byte, error) {
	e.buf = e.buf[:0]
	e.fromLine, e.fromColumn = e.line, e.column
	depth, quote, escaped := 0, false, false
	for {
		for i, c := range e.rest {
			switch {
			case escaped:
				escaped = false
			case quote && c == '\\':
				escaped = true
			case c == '"':
				quote = !quote
			case quote:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			if depth == 0 {
				e.buf = append(e.buf, e.rest[:i+1]...)
				e.consume(i + 1)
				return e.buf, nil
			}
		}
		e.buf = append(e.buf, e.rest...)
		e.consume(len(e.rest))
		if len(e.buf) > maxEntry {
			return nil, e.wrong(fmt.Sprintf("the entry that begins on line %d has more than %d bytes", e.fromLine, maxEntry))
		}
		if err := e.more(); err != nil {
			return nil, err
		}
	}
}
