package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// lines reads a text line by line, unpacked if it is gzip, and counts the lines.
type lines struct {
	file string
	n    int // number of the line that next returned last, from 1
	buf  *bufio.Reader
	in   *bounded
}

// newLines looks at the first bytes: gzip is known by its magic number.
func newLines(file string, r io.Reader, maxBytes int64) (*lines, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	raw := bufio.NewReaderSize(r, 64<<10)
	in := &bounded{r: raw, left: maxBytes, most: maxBytes}
	if magic, _ := raw.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, &Error{File: file, Kind: "bad gzip", Text: "the file begins like gzip but is not: " + err.Error() + "; fetch it again"}
		}
		in.r = z
	}
	l := &lines{file: file, in: in, buf: bufio.NewReaderSize(in, maxLine)}
	head := l.peek()
	if what := noText(head); what != "" {
		return nil, &Error{File: file, Kind: "no text", Text: what}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		_, _ = l.buf.Discard(3)
	}
	if bytes.IndexByte(head, '\r') >= 0 && bytes.IndexByte(head, '\n') < 0 {
		l.buf = bufio.NewReaderSize(&carriageReturns{l.buf}, maxLine)
	}
	return l, nil
}

// noText recognizes by the first bytes of a file, unpacked if it is gzip, that it is not text
// in UTF-8. It says so and what to do; "" is that it may be text.
func noText(head []byte) string {
	const unpack = ": unpack it, and name the file with the jobs in it"
	for _, f := range []struct {
		at          int
		magic, what string
	}{
		{0, "\xff\xfe", "the file is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
		{0, "\xfe\xff", "the file is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
		{257, "ustar", "the file is a tar archive" + unpack + " (tar -xf)"},
		{0, "PK\x03\x04", "the file is a zip archive" + unpack + " (unzip)"},
		{0, "PK\x05\x06", "the file is an empty zip archive"},
		{4, "1AY&SY", "the file is packed with bzip2" + unpack + " (bunzip2)"},
		{0, "\xfd7zXZ\x00", "the file is packed with xz" + unpack + " (unxz)"},
		{0, "\x28\xb5\x2f\xfd", "the file is packed with zstd" + unpack + " (unzstd)"},
		{0, "\x1f\x8b", "the file is packed with gzip twice" + unpack + " (gunzip)"},
		{0, "7z\xbc\xaf\x27\x1c", "the file is a 7z archive" + unpack},
		{0, "PAR1\x15", "the file is a Parquet table: write it as CSV"},
	} {
		if len(head) > f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return f.what
		}
	}
	if bytes.IndexByte(head[:min(len(head), 512)], 0) >= 0 {
		return "the file is no text in UTF-8: it holds zero bytes; unpack or convert it"
	}
	return ""
}

// carriageReturns turns lone carriage returns into line ends.
type carriageReturns struct{ in io.Reader }

// Read implements io.Reader.
func (r *carriageReturns) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

// peek returns up to 64 KiB of what follows, to tell formats apart.
func (l *lines) peek() []byte {
	b, _ := l.buf.Peek(64 << 10)
	return b
}

// next returns the next line without its end. The bytes are valid until the next call. It
// ends with io.EOF. A line that is too long is an *Error with Row.
func (l *lines) next() ([]byte, error) {
	b, err := l.buf.ReadSlice('\n')
	if len(b) == 0 && err != nil {
		return nil, l.broken(err)
	}
	l.n++
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, l.tooLong()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.n-- // broken counts this line
		return nil, l.broken(err)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r")), nil
}

// tooLong skips the rest of a line that does not fit into the buffer.
func (l *lines) tooLong() error {
	for {
		_, err := l.buf.ReadSlice('\n')
		if err == nil || errors.Is(err, io.EOF) {
			return &Error{File: l.file, Line: l.n, Kind: "line too long", Row: true,
				Text: fmt.Sprintf("the line is longer than %d bytes; is this the right format?", maxLine)}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.broken(err)
		}
	}
}

// broken turns an error of reading into an *Error with a line; the end of the file stays
// io.EOF.
func (l *lines) broken(err error) error {
	var told *Error
	switch {
	case errors.As(err, &told):
		return told
	case errors.Is(err, errBound):
		return &Error{File: l.file, Line: l.n + 1, Kind: "file too large",
			Text: fmt.Sprintf("the file has more than %d bytes after unpacking; split it", l.in.most)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{File: l.file, Line: l.n + 1, Kind: "bad gzip", Text: "the gzip data end too early: the file is not whole; fetch it again"}
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return &Error{File: l.file, Line: l.n + 1, Kind: "unreadable", Text: "cannot read on: " + err.Error()}
}

var errBound = errors.New("more bytes than allowed")

// bounded fails after a number of bytes. io.LimitReader would instead end there, and turn a
// long trace into a short one.
type bounded struct {
	r          io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errBound
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
