package server

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"io"
	"io/fs"
	"time"
)

// archivedLog is one log of an archive.
type archivedLog struct {
	Name string // file name
	// Copy writes the log. fs.ErrNotExist says that there is none.
	Copy func(io.Writer) error
	// Why turns an error of Copy into a text, where the archive can go on: it takes the log's
	// place. If it returns nil the archive ends with the error.
	Why func(error) error
}

// writeLogArchive writes an archive of logs.
func writeLogArchive(w io.Writer, at time.Time, logs func(yield func(archivedLog) bool)) error {
	z := zip.NewWriter(w)
	packer := &archivePacker{}
	z.RegisterCompressor(zip.Deflate, packer.of)
	var failed error
	for l := range logs {
		if failed = archiveLog(z, at, &l); failed != nil {
			return failed
		}
	}
	return z.Close()
}

// archiveLog writes the file of a log. The file begins with the first byte, so a missing log
// has no file.
func archiveLog(z *zip.Writer, at time.Time, l *archivedLog) error {
	f := &archiveFile{z: z, at: at, name: l.Name}
	err := l.Copy(f)
	switch {
	case f.err != nil:
		return f.err // an error of the connection
	case errors.Is(err, fs.ErrNotExist) && f.w == nil:
		return nil
	case err != nil:
		why := l.Why(err)
		if why == nil {
			return err
		}
		f = &archiveFile{z: z, at: at, name: l.Name + ".cannot-be-read.txt"}
		_, err = io.WriteString(f, why.Error()+"\n")
		return err
	}
	return f.begin()
}

// archiveFile is a file of an archive.
type archiveFile struct {
	z    *zip.Writer
	at   time.Time
	name string
	w    io.Writer
	err  error
}

func (f *archiveFile) begin() error {
	if f.w == nil && f.err == nil {
		f.w, f.err = f.z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: f.at})
	}
	return f.err
}

// Write implements io.Writer.
func (f *archiveFile) Write(p []byte) (n int, err error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	n, f.err = f.w.Write(p)
	return n, f.err
}

// archivePacker compresses one file after the other with the same memory.
type archivePacker struct{ w *flate.Writer }

func (p *archivePacker) of(w io.Writer) (io.WriteCloser, error) {
	if p.w == nil {
		var err error
		p.w, err = flate.NewWriter(w, flate.BestSpeed)
		return p.w, err
	}
	p.w.Reset(w)
	return p.w, nil
}
