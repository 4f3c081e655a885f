package rest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// The names of server-sent events beside "event", the default.
const (
	StreamEvent   = "event"
	StreamResync  = "resync"  // a gap: read the present state again
	StreamDropped = "dropped" // the reader was too slow, and the stream has ended; continue after seq
	StreamEnd     = "end"     // the job has ended, and nothing follows
)

// maxFrame bounds one server-sent event, so that a hostile server cannot fill the client's
// memory. A job file is at most MaxBody and is sent JSON-escaped.
const maxFrame = 8 << 20

// Dropped is the data of a dropped event. The reader was too slow, and the stream has ended
// after event Seq.
type Dropped struct {
	Seq    uint64 `json:"seq"`
	Detail string `json:"detail"`
}

// Resync is the data of a resync event: the stream goes on after Seq.
type Resync struct {
	Seq uint64 `json:"seq"`
}

// Follower receives a stream of events. With a nil Resync gaps are ignored. An error of
// either function ends the stream and is returned.
type Follower struct {
	Event  func(Event) error
	Resync func(Resync) error
}

// errStreamEnd ends a stream that is complete.
var errStreamEnd = errors.New("the stream is complete")

// Follow streams the events after a number, of one job or with ref "" of all. When the
// connection breaks it reconnects and continues. It returns nil at the job's end, or ctx's
// error.
func (c *Client) Follow(ctx context.Context, ref string, after uint64, f Follower) error {
	path := "/events"
	if ref != "" {
		path = "/jobs/" + element(ref) + "/events"
	}
	s := &eventStream{client: c, path: path, last: after, follower: f}
	return c.persist(ctx, s.once)
}

// persist repeats a stream while the server cannot be reached or is busy, with a growing
// pause. once reports whether there was progress since the last try.
func (c *Client) persist(ctx context.Context, once func(context.Context) (bool, error)) error {
	pause, tries := retryPause, 0
	for {
		progress, err := once(ctx)
		if progress {
			pause, tries = retryPause, 0
		}
		if err == nil || errors.Is(err, errStreamEnd) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var lost *Unreachable
		code := CodeOf(err)
		if !errors.As(err, &lost) && code != CodeBusy && code != CodeUnavailable {
			return err
		}
		if tries++; tries > 20 {
			return err
		}
		if tries == 2 && c.OnWait != nil { // the first retry is immediate and may tell the cause
			c.OnWait(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*2, 5*time.Second)
	}
}

type eventStream struct {
	client   *Client
	path     string
	last     uint64
	follower Follower
}

// once reads one connection of the stream until it breaks.
func (s *eventStream) once(ctx context.Context) (bool, error) {
	k := call{method: http.MethodGet, path: s.path, accept: "text/event-stream",
		query:  url.Values{"follow": {"true"}},
		header: map[string]string{"Last-Event-ID": strconv.FormatUint(s.last, 10)}}
	resp, err := s.client.send(ctx, k)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	progress := false
	err = ReadFrames(resp.Body, func(f Frame) error {
		progress = true
		return s.take(f)
	})
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &Unreachable{URL: s.client.URL(), Err: io.ErrUnexpectedEOF}
	}
	return progress, err
}

func (s *eventStream) take(f Frame) error {
	switch f.Name {
	case StreamEnd:
		return errStreamEnd
	case StreamResync:
		var r Resync
		if err := json.Unmarshal(f.Data, &r); err != nil {
			return fmt.Errorf("resync event: %w", err)
		}
		s.last = r.Seq
		if s.follower.Resync == nil {
			return nil
		}
		return s.follower.Resync(r)
	case StreamDropped:
		var d Dropped
		if err := json.Unmarshal(f.Data, &d); err != nil {
			return fmt.Errorf("dropped event: %w", err)
		}
		return &Unreachable{URL: s.client.URL(), Err: errors.New(d.Detail)} // reconnect where it ended
	case StreamEvent, "":
		var e Event
		if err := json.Unmarshal(f.Data, &e); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		if e.Seq <= s.last {
			return nil // repeated after a reconnect
		}
		s.last = e.Seq
		return s.follower.Event(e)
	}
	return nil // a kind of frame from a newer server
}

// Frame is one server-sent event.
type Frame struct {
	ID   string
	Name string
	Data []byte
}

// ReadFrames calls f for each server-sent event of r until r ends (nil), breaks, or f fails.
// Comments, which servers send as heartbeats, are skipped.
func ReadFrames(r io.Reader, f func(Frame) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	frame, filled := Frame{}, false
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			if filled {
				if err := f(frame); err != nil {
					return err
				}
			}
			frame, filled = Frame{}, false
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "id":
			frame.ID = value
		case "event":
			frame.Name = value
		case "data":
			if filled {
				frame.Data = append(frame.Data, '\n')
			}
			if frame.Data = append(frame.Data, value...); len(frame.Data) > maxFrame {
				return fmt.Errorf("an event is longer than %d bytes", maxFrame)
			}
			filled = true
		}
	}
	return lines.Err()
}

// LogQuery names one task's log. Attempt 0 is the latest one. Tail is how many of the last
// lines are wanted; nil is all. Offset counts bytes from the log's start.
type LogQuery struct {
	Job     string
	Role    string
	Index   int32
	Attempt int32
	Stream  string // stdout or stderr; "" is stdout
	Offset  int64
	Errors  int64 // with both streams: offset in standard error; Offset is that in standard output
	Tail    *int64
	Follow  bool
}

// Logs copies a task's log to w. With Follow it continues until the task's end, and
// reconnects where it stopped. It returns the offset that it reached.
func (c *Client) Logs(ctx context.Context, q LogQuery, w io.Writer) (int64, error) {
	if !q.Follow {
		s := &logStream{client: c, query: q, out: w}
		_, err := s.once(ctx)
		return s.query.Offset, err
	}
	s := &logStream{client: c, query: q, out: w}
	err := c.persist(ctx, s.once)
	return s.query.Offset, err
}

// JobLogs writes the logs of all tasks of a job to w, as a zip archive.
func (c *Client) JobLogs(ctx context.Context, ref string, w io.Writer) error {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/logs", accept: "application/zip"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := &readErrors{r: resp.Body}
	if _, err = io.Copy(w, body); body.err != nil {
		return &Unreachable{URL: c.URL(), Err: body.err}
	}
	return err
}

// BothStreams is the name under which both streams of a log are requested.
const BothStreams = "both"

// LogStreams receives both streams of a task's log, in the order in which they were written.
type LogStreams interface {
	// Piece receives the next bytes of a stream.
	Piece(stderr bool, p []byte) error
	// Pause is called when nothing more is there for now.
	Pause() error
}

// BothLogs reads both streams of a task's log; q.Stream is ignored. With Follow it continues
// until the task's end, and reconnects where each stream stopped. If the server does not know
// their order each stream is read by itself.
func BothLogs(ctx context.Context, c *Client, q LogQuery, to LogStreams) error {
	q.Stream = BothStreams
	if q.Offset > 0 || q.Errors > 0 {
		q.Tail = nil
	}
	s := &bothStreams{logStream: logStream{client: c, query: q, frames: true}, to: to}
	err := error(nil)
	if q.Follow {
		err = c.persist(ctx, s.once)
	} else {
		_, err = s.once(ctx)
	}
	if CodeOf(err) != CodeInvalid || s.begun {
		return err
	}
	return eachLog(ctx, c, q, to)
}

// eachLog reads each stream by itself, both at the same time where they are followed.
func eachLog(ctx context.Context, c *Client, q LogQuery, to LogStreams) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs [2]error
	for i, stream := range []string{"stdout", "stderr"} {
		one := q
		one.Stream = stream
		if i == 1 {
			one.Offset = q.Errors
		}
		run := func() {
			_, errs[i] = c.Logs(ctx, one, writeFunc(func(p []byte) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				if err := errors.Join(to.Piece(i == 1, p), to.Pause()); err != nil {
					return 0, err
				}
				return len(p), nil
			}))
		}
		if q.Follow {
			wg.Go(run)
		} else {
			run()
		}
	}
	wg.Wait()
	if CodeOf(errs[0]) == CodeNotFound && CodeOf(errs[1]) != CodeNotFound { // only one exists
		errs[0] = nil
	}
	return cmp.Or(errs[0], errs[1])
}

type writeFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// bothStreams reads both streams of a log from frames.
type bothStreams struct {
	logStream
	begun  bool   // the begin of each stream is known
	notice []byte // the server's note about the stream of the next piece
	to     LogStreams
}

// once reads what one connection returns.
func (s *bothStreams) once(ctx context.Context) (progress bool, err error) {
	resp, err := s.get(ctx)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body := &readErrors{r: resp.Body}
	progress, err = s.read(bufio.NewReaderSize(body, 64<<10))
	s.notice = nil // it will be repeated
	return progress, s.ended(resp, body, err)
}

// read reads pieces, each after its header line, until the end.
func (s *bothStreams) read(r *bufio.Reader) (progress bool, err error) {
	for {
		if s.query.Follow && r.Buffered() == 0 {
			if err := s.to.Pause(); err != nil {
				return progress, err
			}
		}
		line, err := r.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return progress, nil
		}
		if err != nil && err != bufio.ErrBufferFull {
			return progress, err
		}
		var stream string
		var at, n int64
		if got, _ := fmt.Sscanf(string(line), "%s %d %d", &stream, &at, &n); got != 3 || at < 0 || n < 0 {
			return progress, fmt.Errorf("the server's answer is no log of both streams: %.40q", line)
		}
		if err := s.piece(stream, at, io.LimitReader(r, n)); err != nil {
			return progress, err
		}
		progress = progress || n > 0
	}
}

// piece passes on the bytes of one frame.
func (s *bothStreams) piece(stream string, at int64, r io.Reader) error {
	next := &s.query.Offset
	switch stream {
	case "comb":
		const maxNotice = 4 << 10
		text, err := io.ReadAll(r)
		s.notice = text[:min(len(text), maxNotice)]
		return err
	case "stdout":
	case "stderr":
		next = &s.query.Errors
	default: // a stream that only a newer server has
		_, err := io.Copy(io.Discard, r)
		return err
	}
	*next = at
	if stream == "stderr" { // the second of the two frames that tell where the streams begin
		s.begun, s.query.Tail = true, nil
	}
	_, err := io.Copy(writeFunc(func(p []byte) (int, error) {
		if len(s.notice) > 0 {
			if err := s.to.Piece(stream == "stderr", s.notice); err != nil {
				return 0, err
			}
			s.notice = nil
		}
		if err := s.to.Piece(stream == "stderr", p); err != nil {
			return 0, err
		}
		*next += int64(len(p))
		return len(p), nil
	}), r)
	return err
}

type logStream struct {
	client *Client
	query  LogQuery
	frames bool // each piece comes after a line that tells its stream
	out    io.Writer
}

func (s *logStream) values() url.Values {
	v := url.Values{}
	if s.query.Attempt > 0 {
		v.Set("attempt", strconv.FormatInt(int64(s.query.Attempt), 10))
	}
	if s.query.Stream != "" {
		v.Set("stream", s.query.Stream)
	}
	if s.frames {
		v.Set("frames", "true")
	}
	if s.query.Errors > 0 {
		v.Set("errors", strconv.FormatInt(s.query.Errors, 10))
	}
	if s.query.Offset > 0 && (!s.frames || s.query.Tail == nil) {
		v.Set("offset", strconv.FormatInt(s.query.Offset, 10))
	} else if s.query.Tail != nil {
		v.Set("tail", strconv.FormatInt(*s.query.Tail, 10))
	}
	if s.query.Follow {
		v.Set("follow", "true")
	}
	return v
}

// once copies what one connection returns.
func (s *logStream) once(ctx context.Context) (bool, error) {
	resp, err := s.get(ctx)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if start, err := strconv.ParseInt(resp.Header.Get(HeaderLogOffset), 10, 64); err == nil {
		s.query.Offset, s.query.Tail = start, nil // where the next connection continues
	}
	body := &readErrors{r: resp.Body}
	n, err := io.Copy(s.out, body)
	s.query.Offset += n
	return n > 0, s.ended(resp, body, err)
}

// get requests the log from where it continues.
func (s *logStream) get(ctx context.Context) (*http.Response, error) {
	path := fmt.Sprintf("/jobs/%s/tasks/%s/%d/logs", element(s.query.Job), element(s.query.Role), s.query.Index)
	return s.client.send(ctx, call{method: http.MethodGet, path: path, query: s.values(), accept: "text/plain"})
}

// ended is the error of an answer that has ended; nil where it was complete.
func (s *logStream) ended(resp *http.Response, body *readErrors, err error) error {
	switch {
	case body.err != nil:
		return &Unreachable{URL: s.client.URL(), Err: body.err}
	case err != nil:
		return err // an error of the writer: a closed pipe, a full disk
	case s.query.Follow && resp.Trailer.Get(TrailerLogDone) != "true":
		return &Unreachable{URL: s.client.URL(), Err: io.ErrUnexpectedEOF}
	}
	return nil
}

// readErrors remembers an error of the reader, to tell it from one of the writer.
type readErrors struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// JobRef is a job's number as in paths.
func JobRef(id model.JobID) string { return jobElement(id) }
